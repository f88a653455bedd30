// SPDX-License-Identifier: Apache-2.0
#include "plan/replicas/replica_check.h"

#include <cerrno>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "plan/replicas/settle_replicas.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/wire.h"

namespace reshardfs::replica_check_tests {
namespace {

using test::expect_error;

/// Remembers where it was read, and fails where asked.
class WatchedSource final : public test::Decorator {
 public:
  using Decorator::Decorator;
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    {
      const std::scoped_lock lock(mutex_);
      reads.insert({offset, out.size()});
    }
    if (broken) throw io_error("read", name(), EIO);
    Decorator::read_at(offset, out);
  }

  bool broken = false;
  mutable std::multiset<std::pair<std::uint64_t, std::size_t>> reads;

 private:
  mutable std::mutex mutex_;
};

constexpr std::int64_t kBytes = 20000;  // more than some samples of it

/// Ranks that all hold all parameters, which have the same bytes but for changes.
class ReplicaCheck : public testing::Test {
 protected:
  void make(std::int64_t ranks, int parameters, std::int64_t bytes = kBytes) {
    std::vector<RankFile> files;
    StageLayouts stage;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      std::string records;
      for (int p = 0; p < parameters; ++p) {
        const std::string name = "w" + std::to_string(p);
        std::string content(static_cast<std::size_t>(bytes), static_cast<char>('a' + p % 26));
        if (changes.contains({rank, p})) content[changes[{rank, p}]] = '!';
        records += test::record(name, {bytes}, "UInt8", content);
        stage.insert_or_assign(name, Layout{.device_matrix = {ranks}, .tensor_map = {{}}});
      }
      auto source = std::make_shared<WatchedSource>(
          std::make_shared<test::MemorySource>(records, "rank_" + std::to_string(rank)));
      sources.push_back(source);
      files.push_back(test::rank_file(rank, source));
      source->reads.clear();
    }
    strategy = Strategy({stage}, 0, false);
    table = std::make_shared<const SourceTable>(
        std::make_shared<const CheckpointSet>(std::move(files)), strategy);
    for (auto& source : sources) source->reads.clear();
  }

  ReplicaFindings check() const {
    std::vector<ReplicatedParameter> list;
    for (const SourceParameter& parameter : table->parameters()) {
      list.push_back({&parameter, parameter.grid});
    }
    return check_replicas(*table, list);
  }

  std::size_t reads() const {
    std::size_t count = 0;
    for (const auto& source : sources) count += source->reads.size();
    return count;
  }

  std::map<std::pair<std::int64_t, int>, std::size_t> changes;
  std::vector<std::shared_ptr<WatchedSource>> sources;
  std::optional<Strategy> strategy;
  std::shared_ptr<const SourceTable> table;
};

TEST_F(ReplicaCheck, ComparesAllBytesWhereTheyAreFew) {
  changes = {{{2, 1}, 12345}};
  make(3, 3);
  const ReplicaFindings found = check();
  ASSERT_EQ(found.differing.size(), 1U);
  EXPECT_EQ(found.differing[0].parameter->name, "w1");
  EXPECT_EQ(found.differing[0].one.file->rank, Rank(0));
  EXPECT_EQ(found.differing[0].other.file->rank, Rank(2));
  EXPECT_EQ(found.equal.size(), 2U);
}

TEST_F(ReplicaCheck, ReadsNoMoreThanItsBudgetInPiecesOfAPage) {
  make(20, 300);
  const ReplicaFindings found = check();
  EXPECT_TRUE(found.differing.empty());
  EXPECT_TRUE(found.equal.empty());
  EXPECT_GT(reads(), kReplicaReads * 9 / 10);
  EXPECT_LE(reads(), kReplicaReads);
  for (const auto& source : sources) {
    EXPECT_FALSE(source->reads.empty());
    for (const auto& [offset, size] : source->reads) EXPECT_LE(size, kReplicaSampleBytes);
  }
}

TEST_F(ReplicaCheck, ReadsEveryParameterAndEveryFileAtSeveralPlaces) {
  make(20, 300);
  check();
  std::set<std::uint64_t> parameters;
  for (std::size_t rank = 1; rank < sources.size(); ++rank) {
    EXPECT_GE(sources[rank]->reads.size(), 40U) << rank;
    std::set<std::uint64_t> places;
    for (const auto& [offset, size] : sources[rank]->reads) {
      parameters.insert(offset / kBytes);
      places.insert(offset % kBytes / 1000);
    }
    EXPECT_GE(places.size(), 5U) << rank;
  }
  EXPECT_GE(parameters.size(), 290U);
}

TEST_F(ReplicaCheck, ReadsTheSamePlacesEachTime) {
  make(20, 300);
  check();
  std::vector<std::multiset<std::pair<std::uint64_t, std::size_t>>> first;
  for (auto& source : sources) {
    first.push_back(source->reads);
    source->reads.clear();
  }
  check();
  for (std::size_t i = 0; i < sources.size(); ++i) EXPECT_EQ(sources[i]->reads, first[i]);
}

TEST_F(ReplicaCheck, NoticesARankOfWhichEverythingIsOther) {
  for (int p = 0; p < 300; ++p) {
    for (const std::size_t at : {0U}) changes[{7, p}] = at;
  }
  make(20, 300);
  const ReplicaFindings found = check();
  ASSERT_FALSE(found.differing.empty());
  for (const auto& difference : found.differing) EXPECT_EQ(difference.other.file->rank, Rank(7));
}

TEST_F(ReplicaCheck, SaysHowManySamplesCouldNotBeRead) {
  make(3, 300);
  sources[1]->broken = true;
  const ReplicaFindings found = check();
  EXPECT_GT(found.unreadable, 0U);
  EXPECT_TRUE(found.differing.empty());
}

TEST_F(ReplicaCheck, ReadsWithoutComparingIndexesUntilSomethingDiffers) {
  make(3, 300);
  std::vector<RankFile> files = table->checkpoint().files();
  const auto strict = std::make_shared<WatchedSource>(files[1].source);
  strict->broken = true;
  files[1].unexamined = files[1].source;
  files[1].source = strict;
  table = std::make_shared<const SourceTable>(
      std::make_shared<const CheckpointSet>(std::move(files)), strategy);
  EXPECT_EQ(check().unreadable, 0U);
  EXPECT_TRUE(strict->reads.empty());
}

/// Without a strategy only bytes show that a parameter is whole: none is left out.
TEST_F(ReplicaCheck, ComparesTheBeginOfEachCopyWithoutAStrategy) {
  changes = {{{6, 250}, 100}};
  make(20, 300);
  table = std::make_shared<const SourceTable>(table->checkpoint_ptr(), std::nullopt);
  const ReplicaFindings found = check();
  ASSERT_EQ(found.differing.size(), 1U);
  EXPECT_EQ(found.differing[0].parameter->name, "w250");
  EXPECT_EQ(found.differing[0].other.file->rank, Rank(6));
}

TEST_F(ReplicaCheck, LeavesNoStandInsWhereNotAllBytesWereCompared) {
  changes = {{{1, 0}, 19999}};
  make(2, 2);
  TargetTable target(table, std::nullopt, {});
  const SettledReplicas settled = settle_replicas({target, nullptr, {Rank(0)}}, Replicas::kFirst);
  ASSERT_EQ(settled.warnings.size(), 1U);
  EXPECT_NE(settled.warnings[0].find("1 parameter (w0) that differs"), std::string::npos);
  const auto any = [](const RankFile&) { return true; };
  EXPECT_FALSE(target.parameters()[0].grid->stand_in(0, any));
  EXPECT_TRUE(target.parameters()[1].grid->stand_in(0, any));
  EXPECT_TRUE(target.parameters()[0].grid->replica(0, any));
}

TEST_F(ReplicaCheck, RefusesWhatDiffers) {
  changes = {{{1, 0}, 19999}, {{1, 1}, 0}, {{1, 2}, 7}};
  make(2, 3);
  TargetTable target(table, std::nullopt, {});
  expect_error(ErrorKind::kBadInput,
               {"'w0'", "rank_1", "rank 0 and rank 1", "2 more parameters", "reshardfs verify"},
               [&] {
                 settle_replicas({target, nullptr, {Rank(0)}}, Replicas::kSame);
               });
}

}  // namespace
}  // namespace reshardfs::replica_check_tests
