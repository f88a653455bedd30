// SPDX-License-Identifier: Apache-2.0
#include "export/share.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

using ::testing::ElementsAre;

using Sizes = std::vector<std::uint64_t>;

/// A file of which only the size matters.
class SizedFile final : public VirtualFile {
 public:
  explicit SizedFile(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t /*offset*/, std::span<std::byte> /*out*/) const override {}

 private:
  std::uint64_t size_;
};

class Files {
 public:
  void add(const std::string& path, std::uint64_t size) {
    files_.push_back({path, std::make_shared<SizedFile>(size), false});
  }
  std::vector<const OutputFile*> all() const {
    std::vector<const OutputFile*> out;
    for (const OutputFile& file : files_) out.push_back(&file);
    return out;
  }
  std::vector<std::string> share(std::uint64_t index, std::uint64_t count) const {
    std::vector<std::string> paths;
    for (const OutputFile* file : files_of_share(all(), {index, count}))
      paths.push_back(file->path);
    return paths;
  }

 private:
  std::vector<OutputFile> files_;
};

std::vector<std::uint64_t> loads(const Sizes& sizes, const std::vector<std::size_t>& shares,
                                 std::size_t count) {
  Sizes out(count);
  for (std::size_t i = 0; i < sizes.size(); ++i) out.at(shares.at(i)) += sizes[i];
  return out;
}

TEST(SplitUnits, GivesNeighboursOfEqualSizeToOneShare) {
  EXPECT_THAT(split_units(Sizes(8, 1000), 4), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(split_units(Sizes(5, 1000), 4), ElementsAre(0, 0, 1, 2, 3));
  EXPECT_THAT(split_units(Sizes(3, 1000), 5), ElementsAre(0, 1, 2));
  EXPECT_THAT(split_units({}, 3), ElementsAre());
}

TEST(SplitUnits, TakesNearlyEqualSizesForEqual) {
  EXPECT_THAT(split_units(Sizes{1'000'001, 1'000'000, 1'000'003, 1'000'002}, 2),
              ElementsAre(0, 0, 1, 1));
}

TEST(SplitUnits, BalancesUnequalSizes) {
  // 9 | 5 + 4 | 5 + 3
  EXPECT_THAT(split_units(Sizes{900, 500, 500, 400, 300}, 3), ElementsAre(0, 1, 2, 1, 2));
}

TEST(SplitUnits, SpreadsEmptyFiles) {
  EXPECT_THAT(split_units(Sizes(4, 0), 2), ElementsAre(0, 0, 1, 1));
}

TEST(SplitUnits, RefusesSizesOfMoreThan64Bits) {
  test::expect_error(ErrorKind::kBadInput, {"64-bit"},
                     [] { split_units(Sizes(3, std::uint64_t{1} << 63U), 1); });
}

TEST(SplitUnits, IsBalancedWhateverTheSizes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const std::size_t count = 1 + random() % 40;
    Sizes sizes(random() % 200);
    const std::uint64_t spread = 1 + (random() >> (random() % 50 + 14U));
    for (std::uint64_t& size : sizes) size = random() % spread;
    const std::vector<std::size_t> shares = split_units(sizes, count);
    ASSERT_EQ(shares.size(), sizes.size());
    const std::uint64_t total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    const std::uint64_t largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
    const std::uint64_t bound = total / count + largest + 1;
    for (const std::uint64_t load : loads(sizes, shares, count)) {
      ASSERT_LE(load, bound + bound / 128 + sizes.size()) << count;
    }
    EXPECT_EQ(shares, split_units(sizes, count));
  }
}

TEST(FilesOfShare, KeepsTheFilesOfARankTogether) {
  Files files;
  for (int rank = 0; rank < 4; ++rank) {
    files.add(fmt::format("rank_{}/checkpoint_{}.ckpt", rank, rank), 1000);
    files.add(fmt::format("rank_{}/params/a.npy", rank), 10);
  }
  files.add("merged/model.safetensors", 4000);
  EXPECT_THAT(files.share(0, 2), ElementsAre("merged/model.safetensors"));
  EXPECT_EQ(files.share(1, 2).size(), 8U);
  EXPECT_THAT(files.share(2, 3), ElementsAre("rank_2/checkpoint_2.ckpt", "rank_2/params/a.npy",
                                             "rank_3/checkpoint_3.ckpt", "rank_3/params/a.npy"));
}

TEST(FilesOfShare, HasEachFileExactlyOnceForAnyNumberOfShares) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  Files files;
  std::multiset<std::string> expected;
  for (int i = 0; i < 60; ++i) {
    const std::string path = random() % 2 == 0 ? fmt::format("rank_{}/file_{}", random() % 20, i)
                                               : fmt::format("merged/params/{}.npy", i);
    files.add(path, random() % 5000);
    expected.insert(path);
  }
  for (std::uint64_t count = 1; count <= 70; ++count) {
    std::multiset<std::string> found;
    std::map<Rank, std::uint64_t> share_of_rank;
    for (std::uint64_t index = 0; index < count; ++index) {
      for (const std::string& path : files.share(index, count)) {
        found.insert(path);
        const auto rank = rank_of_path(path);
        if (!rank) continue;
        EXPECT_EQ(share_of_rank.try_emplace(*rank, index).first->second, index) << path;
      }
    }
    ASSERT_EQ(found, expected) << count;
  }
}

TEST(PlanShare, TellsSetsOfFilesApart) {
  Files one;
  one.add("rank_0/a", 10);
  one.add("rank_1/a", 10);
  Files other;
  other.add("rank_0/a", 10);
  other.add("rank_1/a", 11);
  Files fewer;
  fewer.add("rank_0/a", 10);
  EXPECT_EQ(plan_share(one.all(), {0, 2}), plan_share(one.all(), {0, 2}));
  EXPECT_EQ(plan_share(one.all(), {0, 2}).files_sum, plan_share(one.all(), {1, 3}).files_sum);
  EXPECT_NE(plan_share(one.all(), {0, 2}).files_sum, plan_share(other.all(), {0, 2}).files_sum);
  EXPECT_NE(plan_share(one.all(), {0, 2}).files_sum, plan_share(fewer.all(), {0, 2}).files_sum);
}

TEST(RankOfPath, KnowsRankDirectoriesAlone) {
  EXPECT_EQ(rank_of_path("rank_12/params/a.npy"), Rank(12));
  for (const char* path : {"rank_12", "rank_/a", "rank_-1/a", "rank_1x/a", "merged/rank_1/a"}) {
    EXPECT_EQ(rank_of_path(path), std::nullopt) << path;
  }
}

}  // namespace
}  // namespace reshardfs
