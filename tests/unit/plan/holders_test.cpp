// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/holders.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/replicas/replica_check.h"
#include "plan/source/source_table.h"
#include "support/checkpoint.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;

class HoldersTest : public testing::Test {
 protected:
  HoldersTest() : files_(10), entries_(2) {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      files_[i].rank = Rank(static_cast<std::int64_t>(2 * i));
    }
  }
  static std::vector<std::int64_t> ranks(const Holders& holders) {
    std::vector<std::int64_t> out;
    for (const Holding& holding : holders) out.push_back(holding.file->rank.number());
    return out;
  }

  std::vector<RankFile> files_;
  std::vector<TensorEntry> entries_;
};

TEST_F(HoldersTest, JoinNeighboursWithOneEntry) {
  Holders holders;
  EXPECT_TRUE(holders.empty());
  holders.add({&files_[1], 2, &entries_[0]});
  holders.add({&files_[3], 1, &entries_[0]});
  holders.add({&files_[4], 1, &entries_[1]});
  holders.add({&files_[6], 2, &entries_[1]});
  EXPECT_EQ(holders.rows().size(), 3U);
  EXPECT_EQ(holders.size(), 6U);
  EXPECT_EQ(holders.front().file, &files_[1]);
  EXPECT_THAT(ranks(holders), ElementsAre(2, 4, 6, 8, 12, 14));
}

TEST_F(HoldersTest, JoinTheLastOfSeveralRuns) {
  Holders holders;
  holders.add({files_.data(), 1, &entries_[0]});
  holders.add({&files_[2], 1, &entries_[1]});
  holders.add({&files_[3], 1, &entries_[1]});
  holders.add({&files_[4], 0, &entries_[0]});  // none
  EXPECT_THAT(holders.rows(), ElementsAre(Holders::Row{files_.data(), 1, &entries_[0]},
                                          Holders::Row{&files_[2], 2, &entries_[1]}));
  EXPECT_EQ(holders.front().entry, &entries_[0]);
}

TEST_F(HoldersTest, AreChosenByRank) {
  Holders holders;
  holders.add({files_.data(), 5, &entries_[0]});
  holders.add({&files_[6], 4, &entries_[1]});
  EXPECT_THAT(ranks(holders.within({Rank(3), 11})), ElementsAre(4, 6, 8, 12));
  EXPECT_THAT(ranks(holders.within({Rank(4), 1})), ElementsAre(4));
  EXPECT_TRUE(holders.within({Rank(9), 3}).empty());
  EXPECT_TRUE(holders.within({Rank(20), 10}).empty());
}

/// Files that share an index share their entries, but not their contents.
TEST(SharedIndex, DoesNotHideThatReplicasDiffer) {
  std::vector<RankFile> files;
  files.push_back(test::rank_file(
      0, std::make_shared<test::MemorySource>(test::record("w", {2}, "UInt8", "ab"), "0.ckpt")));
  files.push_back(test::rank_file(
      1, std::make_shared<test::MemorySource>(test::record("w", {2}, "UInt8", "ac"), "1.ckpt")));
  files[1].index = files[0].index;
  const auto set = std::make_shared<const CheckpointSet>(std::move(files));
  const SourceTable table(set, std::nullopt);
  const SourceParameter& w = table.parameters().front();
  EXPECT_EQ(check_replicas(table, {{&w, w.grid}}).differing.size(), 1U);
}

}  // namespace
}  // namespace reshardfs
