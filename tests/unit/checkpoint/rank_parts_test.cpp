// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/rank_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_set.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::small_record;
using testing::ElementsAre;
using testing::IsEmpty;

std::string split(const std::string& name) {
  const RankPartName segment = rank_part_name(name);
  return segment.whole + " " + std::to_string(segment.part);
}

TEST(Segments, AreToldByTheirNames) {
  EXPECT_EQ(split("net-9_50_part0.ckpt"), "net-9_50.ckpt 0");
  EXPECT_EQ(split("net_part12-9_50.ckpt"), "net-9_50.ckpt 12");
  EXPECT_EQ(split("checkpoint_0_part1.ckpt"), "checkpoint_0.ckpt 1");
  EXPECT_EQ(split("a_part1_part2.ckpt"), "a_part1.ckpt 2");
  EXPECT_EQ(split("a_part3"), "a 3");
  for (const std::string none :
       {"net-9_50.ckpt", "a_part.ckpt", "a_part1x.ckpt", "a_part-1.ckpt", "part1.ckpt",
        "a_part1000000.ckpt", "a_part99999999999999999999.ckpt", "a_part1_b.ckpt", ""}) {
    EXPECT_EQ(split(none), none + " -1");
  }
}

class SegmentedSet : public testing::Test {
 protected:
  void add(const std::string& file, const std::string& parameter) const {
    dir_.write(file, small_record(parameter));
  }
  void expect_refused(ErrorKind kind, std::initializer_list<std::string> words) const {
    expect_error(kind, words, [&] { CheckpointSet::open(dir_.path(), {}); });
  }
  std::vector<std::string> names_of(const CheckpointSet& set, std::int64_t rank) const {
    std::vector<std::string> names;
    for (const RankFile& file : set.files_of(Rank(rank))) {
      names.push_back(file.path.lexically_relative(dir_.path()).string());
    }
    return names;
  }

  test::TempDir dir_;
};

TEST_F(SegmentedSet, HoldsAllPartsOfARank) {
  for (int part = 0; part < 11; ++part) {
    add("rank_0/net-9_50_part" + std::to_string(part) + ".ckpt", "w" + std::to_string(part));
  }
  add("rank_1/net-9_50_part0.ckpt", "w0");
  add("rank_2/net-9_50.ckpt", "w0");
  add("rank_0/net-8_50.ckpt", "old");
  const CheckpointSet set = CheckpointSet::open(dir_.path(), {});
  EXPECT_EQ(set.step(), "9_50");
  ASSERT_EQ(set.files().size(), 13U);
  ASSERT_EQ(set.files_of(Rank(0)).size(), 11U);
  for (std::size_t i = 0; i < 11; ++i) {
    EXPECT_EQ(set.files_of(Rank(0))[i].part, static_cast<std::int64_t>(i));
    EXPECT_NE(set.files_of(Rank(0))[i].index->find("w" + std::to_string(i)), nullptr);
  }
  EXPECT_EQ(set.find(Rank(0)), &set.files().front());
  EXPECT_THAT(names_of(set, 1), ElementsAre("rank_1/net-9_50_part0.ckpt"));
  EXPECT_THAT(names_of(set, 2), ElementsAre("rank_2/net-9_50.ckpt"));
  EXPECT_EQ(set.find(Rank(2))->part, -1);
  EXPECT_THAT(names_of(set, 3), IsEmpty());
  EXPECT_EQ(set.find(Rank(3)), nullptr);
}

TEST_F(SegmentedSet, NamesThePartThatIsMissing) {
  add("rank_0/net_part0.ckpt", "a");
  add("rank_1/net_part0.ckpt", "a");
  add("rank_1/net_part2.ckpt", "b");
  expect_refused(ErrorKind::kMissing, {"rank 1", "part 1 is missing", "'rank_1/net_part0.ckpt'"});
  add("rank_1/net_part1.ckpt", "c");
  EXPECT_EQ(CheckpointSet::open(dir_.path(), {}).files_of(Rank(1)).size(), 3U);
  std::filesystem::remove(dir_.path() / "rank_1/net_part0.ckpt");
  expect_refused(ErrorKind::kMissing, {"rank 1", "part 0 is missing"});
}

TEST_F(SegmentedSet, RefusesFilesThatDoNotBelongTogether) {
  add("rank_0/net_part0.ckpt", "a");
  add("rank_0/other_part1.ckpt", "b");
  expect_refused(ErrorKind::kBadInput, {"2 runs or models", "--src-prefix other"});
  CheckpointOptions both;
  both.prefix = "*";
  expect_error(ErrorKind::kBadInput, {"2 files", "'rank_0/other_part1.ckpt'", "--src-pattern"},
               [&] { CheckpointSet::open(dir_.path(), both); });
  std::filesystem::remove(dir_.path() / "rank_0/other_part1.ckpt");
  add("rank_0/net.ckpt", "b");
  expect_refused(ErrorKind::kBadInput, {"2 files", "'rank_0/net.ckpt'"});
  std::filesystem::remove(dir_.path() / "rank_0/net.ckpt");
  add("rank_0/net_part00.ckpt", "b");
  expect_refused(ErrorKind::kBadInput, {"2 files", "'rank_0/net_part00.ckpt'"});
}

TEST_F(SegmentedSet, RefusesAParameterInTwoParts) {
  add("rank_3/net_part0.ckpt", "w");
  add("rank_3/net_part1.ckpt", "w");
  add("rank_4/net_part0.ckpt", "w");
  expect_refused(ErrorKind::kBadInput,
                 {"rank 3", "'w'", "two parts", "rank_3/net_part0.ckpt", "rank_3/net_part1.ckpt"});
}

TEST_F(SegmentedSet, WaitsForAPartThatIsBeingWritten) {
  add("rank_0/net-9_50_part0.ckpt", "a");
  dir_.write("rank_0/net-9_50_part1.tmp", "x");
  expect_refused(ErrorKind::kBadInput, {"9_50", "not complete", "rank 0 has net-9_50_part1.tmp"});
  CheckpointOptions named;
  named.step = "9_50";
  EXPECT_THAT(CheckpointSet::open(dir_.path(), named).notes(),
              ElementsAre(testing::HasSubstr("step 9_50 is not complete: rank 0")));
}

TEST_F(SegmentedSet, OpensOnePartAlone) {
  const auto path = dir_.write("net-9_50_part3.ckpt", small_record("w"));
  const CheckpointSet set = CheckpointSet::open(path, {});
  EXPECT_EQ(set.step(), "9_50");
  EXPECT_EQ(set.files().size(), 1U);
}

TEST(CheckpointSet, TakesPartsThatAreOpen) {
  const auto set =
      test::segmented_set({{1, {small_record("a"), small_record("b")}}, {0, {small_record("a")}}});
  EXPECT_EQ(set->files_of(Rank(1)).size(), 2U);
  EXPECT_EQ(set->find(Rank(1))->part, 0);
  std::vector<RankFile> files(set->files().begin() + 1, set->files().end());
  files[1].part = 0;
  expect_error(ErrorKind::kBadInput, {"two files of one rank", "a_part1.ckpt", "rank 1"},
               [&] { CheckpointSet{files}; });
  files[0].part = -1;
  expect_error(ErrorKind::kBadInput, {"two files of one rank"}, [&] { CheckpointSet{files}; });
}

}  // namespace
}  // namespace reshardfs
