// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/path_pattern.h"

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "checkpoint/series/step.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

/// "rank/step" of a one-component pattern, or "no".
std::string match(const std::string& pattern, const std::string& name) {
  const auto captures = PathPattern(pattern).match(0, name, {});
  if (!captures) return "no";
  return (captures->rank ? to_string(*captures->rank) : "-") + "/" + captures->step;
}

TEST(PathPattern, CapturesTheRank) {
  EXPECT_EQ(match("rank_{rank}", "rank_0"), "0/");
  EXPECT_EQ(match("rank_{rank}", "rank_007"), "7/");
  EXPECT_EQ(match("rank_{rank}", "rank_"), "no");
  EXPECT_EQ(match("rank_{rank}", "rank_1a"), "no");
  EXPECT_EQ(match("rank_{rank}", "xrank_1"), "no");
  EXPECT_EQ(match("{rank}", "1048575"), "1048575/");
  EXPECT_EQ(match("{rank}", "1048576"), "no");
  EXPECT_EQ(match("*_rank_{rank}*.ckpt", "net_rank_12-1_5.ckpt"), "12/");
  EXPECT_EQ(match("*{rank}.ckpt", "net12.ckpt"), "12/");
  EXPECT_EQ(match("v2{rank}", "v213"), "13/");
}

TEST(PathPattern, WantsTheSameRankWhereItStandsTwice) {
  EXPECT_EQ(match("{rank}_{rank}", "3_03"), "3/");
  EXPECT_EQ(match("{rank}_{rank}", "3_4"), "no");
  const PathPattern pattern("rank_{rank}/checkpoint_{rank}.ckpt");
  const auto first = pattern.match(0, "rank_1", {});
  ASSERT_TRUE(first);
  EXPECT_TRUE(pattern.match(1, "checkpoint_1.ckpt", *first));
  EXPECT_FALSE(pattern.match(1, "checkpoint_2.ckpt", *first));
}

TEST(PathPattern, CapturesTheStep) {
  EXPECT_EQ(match("{rank}-{step}.ckpt", "2-9_50.ckpt"), "2/9_50");
  EXPECT_EQ(match("{rank}-{step}.ckpt", "2-50.ckpt"), "2/50");
  EXPECT_EQ(match("{rank}-{step}.ckpt", "2-.ckpt"), "no");
  EXPECT_EQ(match("{step}_{rank}", "9_50_3"), "3/9_50");
  EXPECT_EQ(match("{step}_{rank}", "50_3"), "3/50");
  EXPECT_EQ(match("{rank}-{step}-{step}", "1-5-5"), "1/5");
  EXPECT_EQ(match("{rank}-{step}-{step}", "1-5-6"), "no");
}

TEST(PathPattern, KnowsWildcards) {
  EXPECT_EQ(match("{rank}?", "1x"), "1/");
  EXPECT_EQ(match("{rank}?", "1"), "no");
  EXPECT_EQ(match("*a*b*{rank}", "xxaybz4"), "4/");
  EXPECT_EQ(match("*{rank}", ".4"), "no");
  EXPECT_EQ(match(".*{rank}", ".x4"), "4/");
  EXPECT_EQ(match("[a]{rank}", "[a]4"), "4/");
}

/// `count` times `piece`.
std::string repeated(const std::string& piece, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += piece;
  return out;
}

/// Each would take longer than there is time if every way to share the name among the stars were
/// tried.
TEST(PathPattern, TakesNoLongerForManyStars) {
  const std::string name(4096, 'a');
  EXPECT_EQ(match("{rank}" + repeated("*a", 100) + "*b", "1" + name), "no");
  EXPECT_EQ(match("{rank}" + repeated("*a", 100), "1" + name), "1/");
  EXPECT_EQ(match("{rank}" + repeated("*?", 100) + "b", "1" + name), "no");
  EXPECT_EQ(match(repeated("*", 500) + "{rank}", name), "no");
  EXPECT_EQ(match(repeated("*a", 100) + "{rank}", name + "7"), "7/");
  EXPECT_EQ(match(repeated("*{rank}", 30) + "x", repeated("1_", 100)), "no");
  EXPECT_EQ(match(repeated("*{rank}*{step}", 10) + "x", repeated("1_2-", 30)), "no");
}

TEST(PathPattern, TriesARestForEachValueThatItWantsToSeeAgain) {
  EXPECT_EQ(match("*{rank}-*_{rank}", "1-2_2"), "no");
  EXPECT_EQ(match("*{rank}-*_{rank}", "1-2-3_2"), "2/");
  EXPECT_EQ(match("*-{step}-*-{step}-{rank}", "a-1-2-3_4-2-5"), "5/2");
  EXPECT_EQ(match("*_{rank}_*x_{rank}_*", "_1_x_2_x_2_"), "2/");
}

TEST(PathPattern, RefusesWhatIsNoPattern) {
  for (const char* bad : {"", "/rank_{rank}", "rank_{rank}/", "a//{rank}", "../{rank}", "./{rank}",
                          "{rank", "{rank}/{epoch}.ckpt"}) {
    test::expect_error(ErrorKind::kUsage, {bad, "rank_{rank}/*.ckpt"}, [&] { PathPattern{bad}; });
  }
  test::expect_error(ErrorKind::kUsage, {"is longer than 1024 bytes"},
                     [] { PathPattern{"{rank}" + repeated("*a", 600)}; });
}

TEST(PathPattern, WithoutRankIsOfOneProcess) {
  const PathPattern pattern("tr-{step}.ckpt");
  EXPECT_FALSE(pattern.has_rank());
  const auto captures = pattern.match(0, "tr-2_4.ckpt", {});
  ASSERT_TRUE(captures);
  EXPECT_FALSE(captures->rank);
  EXPECT_EQ(captures->step, "2_4");
}

TEST(Step, IsWhatTheFileNameEndsWith) {
  EXPECT_EQ(step_in_file_name("llama-9_50.ckpt"), "9_50");
  EXPECT_EQ(step_in_file_name("CKP_1-4_32.ckpt"), "4_32");
  EXPECT_EQ(step_in_file_name("a-1_2-3_4.ckpt"), "3_4");
  for (const char* none : {"net.ckpt", "net-5.ckpt", "net-5_.ckpt", "net-_5.ckpt", "net-1_2_3.ckpt",
                           "net-1_2x.ckpt", "net_1_2.ckpt", "-", ""}) {
    EXPECT_EQ(step_in_file_name(none), "") << none;
  }
}

TEST(Step, IsComparedByNumber) {
  const std::vector<std::string> ascending = {
      "", "0", "9", "10", "0_11", "1_0", "9_50", "10_9", "10_50", "10_99999999999999999999999"};
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    for (std::size_t k = 0; k < ascending.size(); ++k) {
      EXPECT_EQ(compare_steps(ascending[i], ascending[k]), i <=> k)
          << ascending[i] << " " << ascending[k];
    }
  }
  EXPECT_EQ(compare_steps("09_050", "9_50"), std::strong_ordering::equal);
}

}  // namespace
}  // namespace reshardfs
