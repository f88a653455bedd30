// SPDX-License-Identifier: Apache-2.0
/// A conversion that is exported again and again, wherever to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "reshardfs/conversion.h"

#include "base/sha256.h"
#include "export/checksums.h"
#include "export/exporter.h"
#include "export/planned_files.h"
#include "golden_case.h"
#include "support/temp_dir.h"

namespace reshardfs::no_memory {

class Exported {
 public:
  explicit Exported(const ConversionOptions& options)
      : options_(options), conversion_(Conversion::open(options)) {
    std::string sums;
    for (const OutputFile* output : exported_files(conversion_)) {
      read_whole(*output->file, contents_[output->path]);
    }
    for (const auto& [path, bytes] : contents_) {
      sums += checksum_line(sha256_of(std::as_bytes(std::span(bytes))), path);
    }
    contents_[kChecksumFile] = sums;
  }

  using Place = std::function<std::filesystem::path()>;
  using Contents = std::map<std::string, std::string>;
  /// Of the files that are there, whether they have the bytes that they should have, by path.
  using Look = std::function<std::map<std::string, bool>(const std::filesystem::path& directory,
                                                         const Contents& contents)>;
  /// Exports to a new place with each of some allocations failing: what has its name is whole, and
  /// the same export goes on with it.
  /// @param place gives the next one, in which there is nothing.
  void is_written_or_fails(const Place& place, const Look& look, std::size_t runs) const {
    for (const std::optional<Share>& share : {std::optional<Share>(), std::optional(Share{0, 1})}) {
      std::filesystem::path directory = place();
      const auto check = [&](bool must_exist) {
        const auto there = look(directory, contents_);
        for (const auto& [path, is_whole] : there) EXPECT_TRUE(is_whole) << path;
        EXPECT_TRUE(!must_exist || there.size() == contents_.size());
      };
      with_some_failing([&] { write(directory, share); },
                        [&] {
                          check(/*must_exist=*/false);
                          write(directory, share);
                          check(/*must_exist=*/true);
                          directory = place();
                        },
                        runs);
    }
  }

 private:
  void write(const std::filesystem::path& directory, const std::optional<Share>& share) const {
    ExportOptions options;
    options.directory = directory;
    options.checksums = true;
    options.share = share;
    options.engine.workers = 2;
    export_conversion(conversion_, options_, options);
  }

  ConversionOptions options_;
  Conversion conversion_;
  Contents contents_;  ///< by path
};

/// A source of one file, whose export takes several blocks.
class LargeSource {
 public:
  LargeSource() {
    constexpr std::size_t kElements = 11 << 20;
    const std::string header = R"({"w":{"dtype":"U8","shape":[)" + std::to_string(kElements) +
                               R"(],"data_offsets":[0,)" + std::to_string(kElements) + "]}}";
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
    bytes += header;
    for (std::size_t i = 0; i < kElements; ++i) {
      bytes += static_cast<char>(i * 31 + (i >> 8U) * 7 + (i >> 16U));
    }
    std::filesystem::create_directory(directory_.path() / "rank_0");
    directory_.write("rank_0/checkpoint_0.safetensors", bytes);
  }

  ConversionOptions options() const {
    ConversionOptions options;
    options.source.path = directory_.path();
    options.views = {ViewKind::kRanks};
    return options;
  }

 private:
  test::TempDir directory_;
};

}  // namespace reshardfs::no_memory
