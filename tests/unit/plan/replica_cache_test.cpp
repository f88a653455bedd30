// SPDX-License-Identifier: Apache-2.0
#include "plan/replicas/replica_cache.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plan/replicas/replica_check.h"
#include "support/checkpoint.h"
#include "support/process_cache.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kBytes = 20'000;

/// Four ranks that all hold all parameters.
class ReplicaCacheTest : public testing::Test {
 protected:
  /// @param changed whether the last rank has another byte at the end of its last parameter.
  void make(const std::string& identity, int parameters, bool changed = false,
            bool has_strategy = true) {
    std::vector<RankFile> files;
    StageLayouts stage;
    counting_.clear();
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      std::string records;
      for (int p = 0; p < parameters; ++p) {
        const std::string name = "w" + std::to_string(p);
        std::string content(static_cast<std::size_t>(kBytes), static_cast<char>('a' + p % 26));
        if (changed && rank == 3 && p == parameters - 1) content.back() = '!';
        records += test::record(name, {kBytes}, "UInt8", content);
        stage.insert_or_assign(name, Layout{.device_matrix = {4}, .tensor_map = {{}}});
      }
      counting_.push_back(std::make_shared<test::CountingSource>(
          std::make_shared<test::MemorySource>(records, "rank_" + std::to_string(rank))));
      files.push_back(test::rank_file(rank, counting_.back()));
    }
    const auto set =
        std::make_shared<const CheckpointSet>(std::move(files), nullptr, ObjectKey(identity));
    table_ = std::make_shared<const SourceTable>(
        set, has_strategy ? std::optional(Strategy({stage}, 0, false)) : std::nullopt);
    before_ = reads();
  }
  std::uint64_t reads() const {
    std::uint64_t sum = 0;
    for (const auto& source : counting_) sum += source->reads();
    return sum;
  }
  /// As a process that has begun anew.
  ReplicaFindings check(std::size_t parameters) {
    cache_.reopen();
    std::vector<ReplicatedParameter> list;
    for (const SourceParameter& parameter : table_->parameters()) {
      if (list.size() < parameters) list.push_back({&parameter, parameter.grid});
    }
    return check_replicas(*table_, list);
  }
  bool has_read() const { return reads() > before_; }

  test::ProcessCache cache_;
  std::vector<std::shared_ptr<test::CountingSource>> counting_;
  std::shared_ptr<const SourceTable> table_;
  std::uint64_t before_ = 0;
};

TEST_F(ReplicaCacheTest, WhatWasEqualIsNotReadAgain) {
  // Few enough to be compared as a whole; many; and such as are taken to be whole.
  for (const auto& [parameters, has_strategy] :
       {std::pair(3, true), std::pair(400, true), std::pair(400, false)}) {
    const std::string identity = std::to_string(parameters) + (has_strategy ? "" : " whole");
    make(identity, parameters, false, has_strategy);
    const ReplicaFindings first = check(400);
    EXPECT_TRUE(has_read());
    const std::size_t equal = first.equal.size();
    make(identity, parameters, false, has_strategy);
    const ReplicaFindings second = check(400);
    EXPECT_FALSE(has_read()) << identity;
    EXPECT_EQ(second.equal.size(), equal);
    EXPECT_TRUE(second.differing.empty());
    EXPECT_EQ(second.unreadable, 0U);
  }
}

TEST_F(ReplicaCacheTest, AnotherSetAndOtherComparisonsAreNotKnown) {
  make("set", 3);
  check(3);
  make("set", 3);
  check(2);
  EXPECT_TRUE(has_read());
  make("other", 3);
  check(3);
  EXPECT_TRUE(has_read());
}

TEST_F(ReplicaCacheTest, ThatReplicasDifferIsFoundEachTime) {
  for (int i = 0; i < 2; ++i) {
    make("set", 3, /*changed=*/true);
    const ReplicaFindings found = check(3);
    ASSERT_EQ(found.differing.size(), 1U);
    EXPECT_EQ(found.differing[0].other.file->rank, Rank(3));
    EXPECT_EQ(found.equal.size(), 2U);
  }
}

TEST_F(ReplicaCacheTest, AListIsAllThatIsInIt) {
  make("set", 2);
  const auto& files = table_->checkpoint().files();
  const auto holding = [&](std::size_t file, std::size_t entry) {
    return Holding{&files[file], &files[file].index->entries()[entry]};
  };
  const auto sum = [&](std::size_t one, std::size_t other, std::size_t entry, std::uint64_t at,
                       bool whole) {
    ComparisonList list(table_->checkpoint());
    if (whole) {
      list.add_whole(holding(one, entry), holding(other, entry));
    } else {
      list.add_sample(holding(one, entry), holding(other, entry), at);
    }
    const XXH128_hash_t found = list.sum();
    return std::pair(found.high64, found.low64);
  };
  const auto base = sum(0, 1, 0, 5, false);
  EXPECT_EQ(sum(0, 1, 0, 5, false), base);
  EXPECT_NE(sum(0, 1, 0, 6, false), base);
  EXPECT_NE(sum(0, 1, 1, 5, false), base);
  EXPECT_NE(sum(0, 2, 0, 5, false), base);
  EXPECT_NE(sum(1, 0, 0, 5, false), base);
  EXPECT_NE(sum(0, 1, 0, 0, true), base);
}

}  // namespace
}  // namespace reshardfs
