// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::expect_error;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class StepsTest : public testing::Test {
 protected:
  void add(const std::string& file) const { dir_.write(file, test::small_record("w")); }
  void add_step(const std::string& step, std::initializer_list<int> ranks) const {
    for (const int rank : ranks) add("rank_" + std::to_string(rank) + "/net-" + step + ".ckpt");
  }
  /// "9_50 on 0-3", with "incomplete" behind it.
  std::vector<std::string> steps(const CheckpointOptions& options = {}) const {
    std::vector<std::string> out;
    for (const StepInfo& step : find_steps(dir_.path(), options)) {
      out.push_back(step.name + " on " + format_rank_list(step.ranks) +
                    (step.complete ? "" : " incomplete"));
    }
    return out;
  }
  std::vector<std::string> notes(const CheckpointOptions& options = {}) const {
    return CheckpointSet::open(dir_.path(), options).notes();
  }
  void expect_refused(std::initializer_list<std::string> words) const {
    expect_error(ErrorKind::kBadInput, words, [&] { CheckpointSet::open(dir_.path(), {}); });
  }

  test::TempDir dir_;
};

TEST_F(StepsTest, AreFoundOldestFirst) {
  for (const char* step : {"10_50", "9_50", "10_9"}) add_step(step, {0, 1, 2});
  add("rank_0/net.ckpt");
  dir_.make_directory("rank_7");
  EXPECT_THAT(steps(), ElementsAre("9_50 on 0-2", "10_9 on 0-2", "10_50 on 0-2"));
}

TEST_F(StepsTest, AreIncompleteWhileARankLacksThem) {
  add_step("9_50", {0, 1, 2});
  add_step("10_50", {0, 2});
  EXPECT_THAT(steps(), ElementsAre("9_50 on 0-2", "10_50 on 0,2 incomplete"));
  expect_refused({"step 9_50 on rank 1", "step 10_50 on ranks 0,2", "--step 9_50 is complete"});
  add_step("10_50", {1});
  EXPECT_THAT(steps(), ElementsAre("9_50 on 0-2", "10_50 on 0-2"));
}

TEST_F(StepsTest, AreIncompleteWhileOneIsBeingWritten) {
  add_step("9_50", {0, 1});
  add_step("10_50", {0, 1});
  dir_.write("rank_1/net-10_50.tmp", "x");
  EXPECT_THAT(steps(), ElementsAre("9_50 on 0,1", "10_50 on 0,1 incomplete"));
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("using step 10_50"))) << "the finished file is there";
  std::filesystem::remove(dir_.path() / "rank_1/net-10_50.tmp");
  dir_.write("rank_1/net-10_50.ckpt.tmp", "x");
  dir_.write("rank_1/net-11_50.tmp", "x");
  dir_.write("rank_1/other.tmp", "x");
  EXPECT_THAT(steps(), ElementsAre("9_50 on 0,1", "10_50 on 0,1 incomplete"));
}

TEST_F(StepsTest, CountARankThatHasNothingFinished) {
  add_step("9_50", {0, 1});
  add_step("10_50", {0, 1});
  dir_.write("rank_2/net-10_50.tmp", "x");
  EXPECT_THAT(steps(), ElementsAre("9_50 on 0,1 incomplete", "10_50 on 0,1 incomplete"));
  expect_refused({"the newest step, 10_50,", "rank 2 has net-10_50.tmp", "name a --step"});
  add_step("9_50", {2});
  expect_refused({"10_50 on ranks 0,1", "--step 9_50 is complete"});
}

TEST_F(StepsTest, KnowWhichRanksOfAStrategyTheyLack) {
  const StepInfo step{"1_1", test::ranks({4, 5, 7}), true};
  EXPECT_EQ(ranks_without(step, {Rank(4), 4}), test::ranks({6}));
  EXPECT_EQ(ranks_without(step, {Rank(0), 8}), test::ranks({0, 1, 2, 3, 6}));
  // The file of a later stage, of a set whose ranks were counted from 0.
  EXPECT_EQ(ranks_without({"1_1", test::ranks({0, 1}), true}, {Rank(4), 4}), test::ranks({2, 3}));
  EXPECT_THAT(ranks_without({"1_1", test::ranks({0, 1, 2, 3}), true}, {Rank(4), 4}), IsEmpty());
  EXPECT_THAT(ranks_without({"1_1", test::ranks({0, 1, 2}), true}, {Rank(0), 2}), IsEmpty());
}

TEST_F(StepsTest, NeedAllParts) {
  add("rank_0/net-1_1_part0.ckpt");
  dir_.write("rank_0/net-1_1_part1.ckpt", test::small_record("v"));
  add("rank_0/net-1_2_part1.ckpt");
  EXPECT_THAT(steps(), ElementsAre("1_1 on 0", "1_2 on 0 incomplete"));
}

TEST_F(StepsTest, OfOneFile) {
  const auto path = dir_.write("net-3_9.ckpt", "not opened");
  const std::vector<StepInfo> found = find_steps(path, {});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "3_9");
  EXPECT_TRUE(found[0].complete);
  EXPECT_THAT(find_steps(dir_.write("net.ckpt", ""), {}), IsEmpty());
  expect_error(ErrorKind::kMissing, {"absent"}, [&] { find_steps(dir_.path() / "absent", {}); });
}

TEST_F(StepsTest, OfAPattern) {
  add("step_20/node-0/m.bin");
  add("step_20/node-1/m.bin");
  add("step_100/node-0/m.bin");
  dir_.write("step_100/node-1/m.tmp", "x");
  CheckpointOptions options;
  options.pattern = "step_{step}/node-{rank}/?.bin";
  EXPECT_THAT(steps(options), ElementsAre("20 on 0,1", "100 on 0 incomplete"));
}

std::string meta(int epoch, int step) {
  return R"({"last_epoch": )" + std::to_string(epoch) + R"(, "last_step": )" +
         std::to_string(step) + R"(, "last_ckpt_file": "x.ckpt"})";
}

TEST_F(StepsTest, OfMindFormersDirectory) {
  for (const std::string rank : {"0", "1"}) {
    for (const std::string step : {"9_2", "10_2"}) {
      add("checkpoint_network/rank_" + rank + "/llama_7b_rank_" + rank + "-" + step + ".ckpt");
    }
  }
  EXPECT_THAT(steps(), ElementsAre("9_2 on 0,1", "10_2 on 0,1"));
  EXPECT_THAT(notes(), Contains(HasSubstr("checkpoint_network/rank_{rank}/*.ckpt, which hold "
                                          "only weights")));
  for (const std::string rank : {"0", "1"}) {
    add("checkpoint/rank_" + rank + "/llama_7b_rank_" + rank + "-10_2.ckpt");
    dir_.write("checkpoint/rank_" + rank + "/meta.json", meta(10, 2));
  }
  EXPECT_THAT(steps(), ElementsAre("10_2 on 0,1"));
  EXPECT_THAT(notes(), ElementsAre("using the files that match checkpoint/rank_{rank}/*.ckpt, and "
                                   "ignoring checkpoint_network, which holds only weights"));
}

TEST_F(StepsTest, SaysWhereMetaJsonDisagrees) {
  add_step("10_2", {0, 1, 2, 3});
  dir_.write("rank_0/meta.json", meta(10, 2));
  dir_.write("rank_1/meta.json", meta(9, 2));
  dir_.write("rank_2/meta.json", meta(9, 2));
  EXPECT_THAT(notes(), ElementsAre("meta.json of ranks 1,2 names step 9_2 as the last that was "
                                   "saved completely, not 10_2"));
  for (const char* broken : {"", "[", "[1]", "{}", R"({"last_epoch": -1, "last_step": 2})",
                             R"({"last_epoch": "9", "last_step": 2})"}) {
    dir_.write("rank_3/meta.json", broken);
    EXPECT_THAT(notes(), Contains("meta.json of rank 3 was ignored: it names no last step"));
  }
  dir_.write("rank_3/meta.json", std::string(100'000, '['));
  EXPECT_THAT(notes(), Contains(HasSubstr("rank 3 was ignored")));
  CheckpointOptions named;
  named.step = "10_2";
  EXPECT_THAT(notes(named), Not(Contains(HasSubstr("meta.json"))));
}

}  // namespace
}  // namespace reshardfs
