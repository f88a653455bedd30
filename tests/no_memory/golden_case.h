// SPDX-License-Identifier: Apache-2.0
/// Conversions of tests/golden, and how their files are read.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/conversion.h"

#include "base/text/numbers.h"
#include "failing_allocations.h"

namespace reshardfs::no_memory {

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The descriptors that the process has open, with the inodes of files.
/// Inherited ones, too: names do not tell them apart, as the program that runs
/// the tests may rename its log meanwhile.
inline std::map<int, std::pair<dev_t, ino_t>> open_descriptors() {
  std::map<int, std::pair<dev_t, ino_t>> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    struct stat info {};
    if (::fstat(descriptor, &info) != 0) continue;
    // Other kinds, such as pipes and the listing itself, have passing inodes.
    if (!S_ISREG(info.st_mode)) info.st_dev = info.st_ino = 0;
    found.emplace(descriptor, std::pair(info.st_dev, info.st_ino));
  }
  return found;
}

inline ConversionOptions options_of_case(const std::string& name) {
  const std::filesystem::path directory = std::filesystem::path(RESHARDFS_GOLDEN_DIR) / name;
  ConversionOptions options;
  options.source.path = directory / "src";
  options.source.strategy = directory / "src_strategy.ckpt";
  options.dst_strategy = directory / "dst_strategy.ckpt";
  options.prefix = "ckpt_";
  options.unmatched = Unmatched::kSource;
  return options;
}

/// Needs no more memory than the reads do.
inline void read_whole(const VirtualFile& file, std::string& out) {
  out.resize(static_cast<std::size_t>(file.size()));
  file.read_at(0, std::as_writable_bytes(std::span(out)));
}

/// Of an operation with many allocations, about so many fail in turn.
/// RESHARDFS_NO_MEMORY_RUNS in the environment asks for another number, such as all of them.
inline void with_some_failing(const std::function<void()>& operation,
                              const std::function<void()>& check, std::size_t runs = 60) {
  const std::size_t count = allocations_of(Threads::kAll, operation);
  check();
  if (const char* const asked = std::getenv("RESHARDFS_NO_MEMORY_RUNS")) {
    runs = parse_number<std::size_t>(asked).value();
  }
  const std::size_t stride = std::max<std::size_t>(count / runs, 1);
  EXPECT_GT(with_each_failing(Threads::kAll, operation, check, stride), std::min(count, runs / 3));
}

}  // namespace reshardfs::no_memory
