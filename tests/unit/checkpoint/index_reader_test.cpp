// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/indexes/index_reader.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "support/errors.h"
#include "support/sources.h"
#include "support/wire.h"

namespace reshardfs::index_reader_tests {
namespace {

using test::CountingSource;
using test::expect_error;
using test::MemorySource;
using test::record;

constexpr std::size_t kParameters = 64;

std::string name_of(std::size_t number) {
  return "layer." + std::to_string(100 + number);
}

/// As a local file: it has a descriptor.
class OpenSource final : public test::Decorator {
 public:
  using Decorator::Decorator;
  std::shared_ptr<const Descriptor> descriptor() const override {
    return std::make_shared<const Descriptor>(-1);
  }
};

/// Files of 64 parameters of one byte, the rank's number.
class IndexReaderTest : public testing::Test {
 protected:
  /// @param name of a parameter of a rank.
  void add(std::size_t rank, const std::function<std::string(std::size_t)>& name = name_of,
           const std::string& end = "") {
    std::string bytes;
    for (std::size_t i = 0; i < kParameters; ++i) {
      bytes += record(name(i), {1}, "UInt8", std::string(1, static_cast<char>(rank)));
    }
    add_bytes(rank, bytes + end);
  }
  void add_bytes(std::size_t rank, const std::string& bytes) {
    RankFile file;
    file.rank = Rank(static_cast<std::int64_t>(rank));
    file.path = "rank_" + std::to_string(rank) + ".ckpt";
    counting_.push_back(std::make_shared<CountingSource>(
        std::make_shared<MemorySource>(bytes, file.path.string())));
    file.source = counting_.back();
    files_.push_back(file);
  }
  void read_all() { read_indexes(files_, {}); }
  void read_samples() { read_indexes(files_, {}, /*cheap_parameters=*/0); }
  std::size_t distinct() const {
    std::vector<const FileIndex*> seen;
    for (const RankFile& file : files_) {
      if (std::find(seen.begin(), seen.end(), file.index.get()) == seen.end()) {
        seen.push_back(file.index.get());
      }
    }
    return seen.size();
  }
  static char first_byte(const RankFile& file) {
    std::byte byte{};
    const ByteRange at = file.index->entries().front().extents.front();
    file.source->read_at(at.offset(), std::span(&byte, 1));
    return static_cast<char>(byte);
  }

  std::vector<RankFile> files_;
  std::vector<std::shared_ptr<CountingSource>> counting_;
};

TEST_F(IndexReaderTest, SharesTheIndexOfFilesThatDifferInContentAlone) {
  for (std::size_t rank = 0; rank < 8; ++rank) add(rank);
  read_all();
  EXPECT_EQ(distinct(), 1U);
  EXPECT_EQ(files_[7].index->entries().size(), kParameters);
  EXPECT_EQ(first_byte(files_[7]), 7);
}

TEST_F(IndexReaderTest, SharesItAlthoughTheTrailersDiffer) {
  add(0, name_of, test::trailer(1));
  add(1, name_of, test::trailer(2));
  read_all();
  EXPECT_EQ(distinct(), 1U);
}

TEST_F(IndexReaderTest, GivesFilesOfOneSizeAndOtherNamesTheirOwn) {
  for (std::size_t rank = 0; rank < 8; ++rank) {
    add(rank, [&](std::size_t i) { return name_of(i + rank / 4 * kParameters); });
  }
  read_all();
  EXPECT_EQ(distinct(), 2U);
  EXPECT_NE(files_[0].index, files_[4].index);
  EXPECT_EQ(files_[4].index, files_[7].index);
}

TEST_F(IndexReaderTest, SeesASingleNameThatDiffers) {
  for (std::size_t rank = 0; rank < 4; ++rank) {
    add(rank, [&](std::size_t i) { return i == 40 && rank == 2 ? "other.140" : name_of(i); });
  }
  files_.erase(files_.begin());
  read_all();
  EXPECT_EQ(distinct(), 2U);
  EXPECT_EQ(files_[1].index->find(name_of(40)), nullptr);
}

TEST_F(IndexReaderTest, ReadsWhatHasAMap) {
  const std::string map = test::bytes(1, test::bytes(1, "m") + test::bytes(3, "no map"));
  add_bytes(0, map);
  add_bytes(1, map);
  expect_error(ErrorKind::kBadInput, {"rank_0.ckpt"}, [&] { read_all(); });
}

TEST_F(IndexReaderTest, ReadsAPartOfTheOthersWhereThereAreMany) {
  for (std::size_t rank = 0; rank < 64; ++rank) add(rank);
  read_samples();
  EXPECT_EQ(distinct(), 1U);
  EXPECT_EQ(first_byte(files_[63]), 63);
}

TEST_F(IndexReaderTest, SeesStagesInSamples) {
  for (std::size_t rank = 0; rank < 64; ++rank) {
    add(rank, [&](std::size_t i) { return name_of(i + rank / 16 * kParameters); });
  }
  read_samples();
  EXPECT_EQ(distinct(), 4U);
  for (const RankFile& file : files_) EXPECT_EQ(first_byte(file), file.rank.number());
}

/// Whichever parameter it is, and whichever ranks are alike.
TEST_F(IndexReaderTest, SeesAParameterWithTheRanksNameInSamples) {
  for (const std::size_t own : {0U, 7U, 33U, 63U}) {
    for (const std::size_t kinds : {2U, 4U, 8U, 64U}) {
      files_.clear();
      for (std::size_t rank = 0; rank < 64; ++rank) {
        const std::string special = "rank. " + std::to_string(100 + rank % kinds);
        add(rank, [&](std::size_t i) { return i == own ? special : name_of(i); });
      }
      read_samples();
      EXPECT_EQ(distinct(), kinds) << own;
    }
  }
}

TEST_F(IndexReaderTest, FailsTheFirstReadOfAFileThatDiffersWhereItWasNotLookedAt) {
  // Each file has another such place: find one in which it is not seen.
  bool unseen = false;
  for (std::size_t odd = 0; odd < kParameters && !unseen; ++odd) {
    files_.clear();
    for (std::size_t rank = 0; rank < 64; ++rank) {
      add(rank, [&](std::size_t i) { return i == odd && rank == 9 ? "other.140" : name_of(i); });
    }
    read_samples();
    if (distinct() > 1) continue;
    unseen = true;
    for (int i = 0; i < 2; ++i) {
      expect_error(ErrorKind::kBadInput, {"rank_9.ckpt", "rank_0.ckpt", "--check-crc"},
                   [&] { first_byte(files_[9]); });
    }
    EXPECT_EQ(first_byte(files_[8]), 8);
  }
  EXPECT_TRUE(unseen);
}

TEST_F(IndexReaderTest, HandsOutNoDescriptorOfAFileThatDiffersWhereItWasNotLookedAt) {
  bool unseen = false;
  for (std::size_t odd = 0; odd < kParameters && !unseen; ++odd) {
    files_.clear();
    for (std::size_t rank = 0; rank < 64; ++rank) {
      add(rank, [&](std::size_t i) { return i == odd && rank == 9 ? "other.140" : name_of(i); });
      files_.back().source = std::make_shared<OpenSource>(files_.back().source);
    }
    read_samples();
    if (distinct() > 1) continue;
    unseen = true;
    expect_error(ErrorKind::kBadInput, {"rank_9.ckpt", "rank_0.ckpt"},
                 [&] { files_[9].source->descriptor(); });
    EXPECT_NE(files_[8].source->descriptor(), nullptr);
  }
  EXPECT_TRUE(unseen);
}

TEST_F(IndexReaderTest, LeavesNothingForLaterIfToldSo) {
  for (std::size_t odd = 0; odd < kParameters; ++odd) {
    files_.clear();
    for (std::size_t rank = 0; rank < 64; ++rank) {
      add(rank, [&](std::size_t i) { return i == odd && rank == 9 ? "other.140" : name_of(i); });
    }
    CheckpointOptions options;
    options.examine_all = true;
    read_indexes(files_, options, 0);
    EXPECT_EQ(distinct(), 2U) << odd;
  }
}

TEST_F(IndexReaderTest, TellsWhatIsDamagedAndWhere) {
  for (std::size_t rank = 0; rank < 4; ++rank) add(rank);
  std::string damaged(files_[0].source->size(), '\0');
  files_[0].source->read_at(0, std::as_writable_bytes(std::span(damaged)));
  damaged[0] = '\x07';
  files_.pop_back();
  files_.pop_back();
  add_bytes(2, damaged);
  expect_error(ErrorKind::kBadInput, {"rank_2.ckpt"}, [&] { read_all(); });
}

}  // namespace
}  // namespace reshardfs::index_reader_tests
