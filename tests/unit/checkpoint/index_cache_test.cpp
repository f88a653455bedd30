// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/indexes/index_cache.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/indexes/index_reader.h"
#include "format/index/index_sum.h"
#include "support/errors.h"
#include "support/process_cache.h"
#include "support/sources.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::record;

constexpr std::size_t kParameters = 64;

/// Has an identity, and counts how often it is read.
class KnownSource final : public test::Decorator {
 public:
  KnownSource(const std::string& bytes, const std::string& name, std::string identity)
      : Decorator(std::make_shared<test::MemorySource>(bytes, name)),
        identity_(std::move(identity)) {}
  std::string identity() const override { return identity_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    Decorator::read_at(offset, out);
  }
  mutable std::atomic<std::size_t> reads = 0;

 private:
  std::string identity_;
};

class IndexCacheTest : public testing::Test {
 protected:
  /// Parameters of one byte, the rank's number.
  static std::string content(std::size_t rank, std::size_t odd = kParameters) {
    std::string bytes;
    for (std::size_t i = 0; i < kParameters; ++i) {
      bytes += record((i == odd ? "other." : "layer.") + std::to_string(100 + i), {1}, "UInt8",
                      std::string(1, static_cast<char>(rank)));
    }
    return bytes;
  }
  void add(const std::string& bytes, const std::string& identity) {
    const std::size_t rank = files_.size();
    RankFile file;
    file.rank = Rank(static_cast<std::int64_t>(rank));
    file.path = "rank_" + std::to_string(rank) + ".ckpt";
    sources_.push_back(std::make_shared<KnownSource>(bytes, file.path.string(), identity));
    file.source = sources_.back();
    files_.push_back(file);
  }
  /// Files of ranks that are alike.
  void make(std::size_t count) {
    files_.clear();
    sources_.clear();
    for (std::size_t rank = 0; rank < count; ++rank) {
      add(content(rank), "file " + std::to_string(rank));
    }
  }
  /// As a process that has begun anew; what the last one has kept is on disk.
  void read(std::size_t cheap = kCheapParameters, const CheckpointOptions& options = {}) {
    cache_.reopen();
    const IndexCache kept(files_);
    if (!kept.load(files_, options)) kept.store(files_, read_indexes(files_, options, cheap));
  }
  std::size_t reads() const {
    std::size_t sum = 0;
    for (const auto& source : sources_) sum += source->reads;
    return sum;
  }
  static char first_byte(const RankFile& file) {
    std::byte byte{};
    file.source->read_at(file.index->entries().front().extents.front().offset(),
                         std::span(&byte, 1));
    return static_cast<char>(byte);
  }

  test::ProcessCache cache_;
  std::vector<RankFile> files_;
  std::vector<std::shared_ptr<KnownSource>> sources_;
};

TEST_F(IndexCacheTest, NoHeaderIsReadAgain) {
  make(8);
  read();
  EXPECT_GT(reads(), 0U);
  const std::uint64_t sum = index_sum(*files_[5].index);
  make(8);
  read();
  EXPECT_EQ(reads(), 0U);
  EXPECT_EQ(files_[0].index, files_[7].index);
  EXPECT_EQ(index_sum(*files_[5].index), sum);
  EXPECT_EQ(first_byte(files_[7]), 7);
}

TEST_F(IndexCacheTest, FilesOfSeveralKindsKeepTheirOwn) {
  const auto make_kinds = [&] {
    files_.clear();
    sources_.clear();
    for (std::size_t rank = 0; rank < 8; ++rank) {
      add(content(rank, rank / 2), "file " + std::to_string(rank));
    }
  };
  make_kinds();
  read();
  make_kinds();
  read();
  EXPECT_EQ(reads(), 0U);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    EXPECT_NE(files_[rank].index->find("other." + std::to_string(100 + rank / 2)), nullptr);
    EXPECT_EQ(files_[rank].index, files_[rank / 2 * 2].index);
    EXPECT_NE(files_[rank].index, files_[(rank + 2) % 8].index);
  }
  // The order by name is worked out once for equal names alone.
  EXPECT_EQ(files_[0].index->name_order(), files_[1].index->name_order());
}

TEST_F(IndexCacheTest, AnotherVersionOfOneFileIsAnotherSet) {
  make(4);
  read();
  for (const std::string other : {"file 2 changed", ""}) {
    make(3);
    add(content(3, 7), other);
    read();
    EXPECT_GT(reads(), 0U) << other;
    EXPECT_NE(files_[3].index->find("other.107"), nullptr);
  }
}

TEST_F(IndexCacheTest, FilesInAnotherOrderAreAnotherSet) {
  make(2);
  read();
  files_.clear();
  sources_.clear();
  add(content(1, 9), "file 1");
  add(content(0), "file 0");
  read();
  EXPECT_GT(reads(), 0U);
}

TEST_F(IndexCacheTest, WhatSamplesShowedIsStillComparedByTheFirstRead) {
  bool unseen = false;
  for (std::size_t odd = 0; odd < kParameters && !unseen; ++odd) {
    const auto make_odd = [&] {
      files_.clear();
      sources_.clear();
      for (std::size_t rank = 0; rank < 64; ++rank) {
        add(content(rank, rank == 9 ? odd : kParameters),
            "odd " + std::to_string(odd) + " rank " + std::to_string(rank));
      }
    };
    make_odd();
    read(0);
    if (files_[9].index != files_[8].index) continue;
    unseen = true;
    make_odd();
    read(0);
    EXPECT_EQ(reads(), 0U);
    for (int i = 0; i < 2; ++i) {
      expect_error(ErrorKind::kBadInput, {"rank_9.ckpt", "rank_0.ckpt", "--check-crc"},
                   [&] { first_byte(files_[9]); });
    }
    EXPECT_EQ(first_byte(files_[8]), 8);
    // Where nothing may be left for later, it does not do.
    make_odd();
    CheckpointOptions options;
    options.examine_all = true;
    read(0, options);
    EXPECT_NE(files_[9].index, files_[8].index);
    // And then nothing is.
    make_odd();
    read(0, options);
    EXPECT_EQ(reads(), 0U);
    EXPECT_NE(files_[9].index, files_[8].index);
  }
  EXPECT_TRUE(unseen);
}

TEST_F(IndexCacheTest, WhatIsDamagedIsMadeAnew) {
  for (const bool cut : {false, true}) {
    make(4);
    read();
    cache_.reopen();  // so that all is written
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache_.path())) {
      if (!entry.is_regular_file() || entry.file_size() < 100) continue;
      if (cut) {
        std::filesystem::resize_file(entry.path(), entry.file_size() - 50);
        continue;
      }
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
      file.put('\x5a');
    }
    make(4);
    read();
    EXPECT_GT(reads(), 0U) << cut;
    EXPECT_EQ(files_[3].index->entries().size(), kParameters);
    make(4);
    read();
    EXPECT_EQ(reads(), 0U) << cut;
  }
}

TEST_F(IndexCacheTest, PiecesAndOpaqueContentsComeBack) {
  std::vector<TensorEntry> entries(3);
  entries[0] = {"w", DType::kInt16, ContentEncoding::kPlain, {2, 3}, {{10, 12}}, 12};
  entries[1] = {"w", DType::kInt16, ContentEncoding::kPlain, {1, 3}, {{30, 2}, {40, 4}}, 6};
  entries[2] = {"text", DType::kString, ContentEncoding::kPlain, {}, {{50, 8}}, 8};
  BoxOffsets pieces;
  pieces.add(0, {0, 0});
  pieces.add(1, {2, 0});
  IndexHints hints;
  hints.checksum_bytes = 21;
  make(1);
  files_[0].index = std::make_shared<const FileIndex>(entries, hints, pieces);
  const std::uint64_t sum = index_sum(*files_[0].index);
  IndexCache(files_).store(files_, Likenesses(1));
  cache_.reopen();
  make(1);
  ASSERT_TRUE(IndexCache(files_).load(files_, {}));
  EXPECT_EQ(index_sum(*files_[0].index), sum);
  EXPECT_EQ(files_[0].index->checksum_bytes(), 21U);
  EXPECT_EQ(files_[0].index->find_all("w").size(), 2U);
}

TEST_F(IndexCacheTest, WithoutACacheThereIsNothing) {
  make(2);
  read();
  source_cache() = nullptr;
  make(2);
  EXPECT_FALSE(IndexCache(files_).load(files_, {}));
  EXPECT_EQ(IndexCache(files_).key(), std::nullopt);
}

}  // namespace
}  // namespace reshardfs
