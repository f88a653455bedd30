// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategy_samples.h"

namespace reshardfs::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What loading the directory says.
std::string directory_refusal(const TemporaryDirectory& directory,
                              ErrorKind kind = ErrorKind::kBadInput) {
  const auto error = error_of(directory.path());
  if (!error) return "accepted";
  EXPECT_EQ(error->kind(), kind);
  EXPECT_THAT(error->file(), HasSubstr(directory.path().string()));
  return error->what();
}

std::string file_without_operators(const std::string& name) {
  return current_stage() + layout_item(name, {{{2}}, {{0, -1}}});
}

// Each rank costs some bytes, and a line in the file adds a million of them.
TEST(StagePrefix, RefusesMoreRanksThanThereMayBe) {
  constexpr std::int64_t kManyDevices = 1 << 19;
  std::string file = current_stage();
  for (const char* name : {"0-a", "1-a"}) file += layout_item(name, {{{kManyDevices}}, {{-1}}});
  EXPECT_EQ(load_bytes(file).rank_count(), 1 << 20);
  file += layout_item("2-a", {{{kManyDevices}}, {{-1}}});
  EXPECT_EQ(refusal(file), "has 3 stages of 524288 devices; the limit is 1048576 ranks");
}

TEST(StagePrefix, SplitsTheNamesOfAMergedFile) {
  const Strategy strategy =
      load_bytes(simple_file("0-a", 0, 2) + layout_item("1-b", {{{2}}, {{-1}}}) +
                 layout_item("1-c-2", {{{2}}, {{-1}}}));
  EXPECT_TRUE(strategy.stage_prefixed());
  EXPECT_EQ(strategy.stage_count(), 2);
  EXPECT_EQ(strategy.rank_count(), 4);
  EXPECT_EQ(strategy.first_stage(), 0);
  EXPECT_TRUE(strategy.stage(0).contains("a"));
  EXPECT_TRUE(strategy.stage(1).contains("b"));
  EXPECT_TRUE(strategy.stage(1).contains("c-2"));
}

TEST(StagePrefix, TenStagesAreCountedAsNumbers) {
  std::string file = current_stage();
  for (int i = 10; i >= 0; --i) {
    file += layout_item(std::to_string(i) + "-w" + std::to_string(i), {{{1}}, {{-1}}});
  }
  const Strategy strategy = load_bytes(file);
  ASSERT_EQ(strategy.stage_count(), 11);
  EXPECT_TRUE(strategy.stage(10).contains("w10"));
  EXPECT_TRUE(strategy.stage(2).contains("w2"));
}

TEST(StagePrefix, ADashInANameThatIsNotMergedBelongsToIt) {
  const Strategy other = load_bytes(simple_file("layer-norm", 0, 2));
  EXPECT_TRUE(other.contains("layer-norm"));
  const Strategy mixed = load_bytes(simple_file("0-a", 0, 2) + layout_item("b", {{{2}}, {{0}}}));
  EXPECT_FALSE(mixed.stage_prefixed());
  EXPECT_TRUE(mixed.contains("0-a"));
  for (const char* name :
       {"-1-w", "-w", "0-", "0x1-w", " 1-w", "1.5-w", "99999999999999999999-w"}) {
    EXPECT_TRUE(load_bytes(simple_file(name, 0, 2)).contains(name)) << name;
  }
}

TEST(StagePrefix, RefusesHoles) {
  EXPECT_EQ(refusal(simple_file("0-a", 0, 2) + layout_item("2-b", {{{2}}, {{0}}})),
            "stage 1 is missing: the file has stages 0, 2");
  EXPECT_EQ(refusal(simple_file("3-a", 0, 2)), "stage 0 is missing: the file has stages 3");
  std::string many = current_stage();
  for (int i = 1; i < 40; ++i) {
    many += layout_item(std::to_string(i) + "-w", {{{1}}, {{-1}}});
  }
  EXPECT_THAT(refusal(many), HasSubstr("15, 16, ..."));
}

TEST(StagePrefix, AParameterMayBeInSeveralStages) {
  const Strategy strategy =
      load_bytes(simple_file("0-a", 0, 2) + layout_item("1-b", {{{2}}, {{0}}}) +
                 layout_item("2-a", {{{2}}, {{-1, -1}}}));
  EXPECT_THAT(strategy.stages_of("a"), ElementsAre(0, 2));
  EXPECT_THAT(strategy.stages_of("b"), ElementsAre(1));
  EXPECT_THAT(strategy.stages_of("c"), ElementsAre());
  EXPECT_TRUE(strategy.contains("b"));
  EXPECT_FALSE(strategy.contains("c"));
}

TEST(OneStage, TheFirstOperatorSaysWhichItIs) {
  const Strategy strategy = load_bytes(simple_file("w", 3, 2));
  EXPECT_EQ(strategy.first_stage(), 3);
  EXPECT_EQ(strategy.stage_count(), 1);
  EXPECT_THAT(refusal(simple_file("w", -1, 2)), HasSubstr("'MatMul-op0' is in stage -1"));
}

TEST(OneStage, WithoutOperatorsItIsStageZero) {
  EXPECT_EQ(load_bytes(file_without_operators("w")).first_stage(), 0);
}

TEST(StageDirectory, PutsFilesInTheOrderOfTheirStages) {
  const TemporaryDirectory directory;
  directory.write("a.ckpt", simple_file("late", 1, 2));
  directory.write("b.ckpt", simple_file("early", 0, 2));
  directory.write(".hidden.ckpt", "noise");
  directory.write("notes.txt", "noise");
  std::filesystem::create_directory(directory.path() / "folder.ckpt");
  const Strategy strategy = Strategy::load(directory.path());
  EXPECT_EQ(strategy.stage_count(), 2);
  EXPECT_FALSE(strategy.stage_prefixed());
  EXPECT_TRUE(strategy.stage(0).contains("early"));
  EXPECT_TRUE(strategy.stage(1).contains("late"));
  ASSERT_EQ(strategy.operators().size(), 2U);
  EXPECT_EQ(strategy.operators()[0].stage, 0);
}

TEST(StageDirectory, OneFileLoadsAsIfItHadBeenNamed) {
  const TemporaryDirectory directory;
  directory.write("strategy.ckpt", simple_file("w", 2, 2));
  EXPECT_EQ(Strategy::load(directory.path()).first_stage(), 2);
  const TemporaryDirectory merged;
  merged.write("all.ckpt", simple_file("0-a", 0, 2) + layout_item("1-b", {{{2}}, {{0}}}));
  EXPECT_EQ(Strategy::load(merged.path()).stage_count(), 2);
}

TEST(StageDirectory, SkipsCopies) {
  const TemporaryDirectory directory;
  directory.write("rank_0.ckpt", simple_file("w", 2, 2));
  directory.write("rank_1.ckpt", simple_file("w", 2, 2));
  EXPECT_EQ(Strategy::load(directory.path()).first_stage(), 2);
}

TEST(StageDirectory, AcceptsAStageTwiceIfItsLayoutsAreEqual) {
  const std::string a = layout_item("a", {{{2}}, {{0}}});
  const std::string b = layout_item("b", {{{2}}, {{-1}}});
  const std::string head = current_stage() + operator_item("op", 0);
  const TemporaryDirectory directory;
  directory.write("0.ckpt", head + a + b);
  directory.write("1.ckpt", head + b + a);
  directory.write("2.ckpt", simple_file("c", 1, 2));
  EXPECT_EQ(Strategy::load(directory.path()).stage_count(), 2);
}

TEST(StageDirectory, RefusesAStageWithTwoMeanings) {
  const TemporaryDirectory directory;
  directory.write("x.ckpt", simple_file("w", 0, 2));
  directory.write("y.ckpt", simple_file("w", 0, 4));
  const std::string text = directory_refusal(directory);
  EXPECT_THAT(text, HasSubstr((directory.path() / "x.ckpt").string()));
  EXPECT_THAT(text, HasSubstr((directory.path() / "y.ckpt").string() + ": parameter 'w': lays out "
                                                                       "stage 0 differently"));
  const TemporaryDirectory more;
  more.write("x.ckpt", simple_file("a", 0, 2));
  more.write("y.ckpt", simple_file("a", 0, 2) + layout_item("b", {{{2}}, {{0}}}));
  EXPECT_THAT(directory_refusal(more), HasSubstr("parameter 'b'"));
}

TEST(StageDirectory, TakesTheStageFromTheNameWhereThereAreNoOperators) {
  const TemporaryDirectory directory;
  directory.write("strategy_0.ckpt", file_without_operators("a"));
  directory.write("strategy_1.ckpt", file_without_operators("b"));
  const Strategy strategy = Strategy::load(directory.path());
  ASSERT_EQ(strategy.stage_count(), 2);
  EXPECT_TRUE(strategy.stage(1).contains("b"));
}

TEST(StageDirectory, RefusesFilesOfAnUnknownStage) {
  const TemporaryDirectory directory;
  directory.write("first.ckpt", file_without_operators("a"));
  directory.write("strategy_1.ckpt", simple_file("b", 1, 2));
  const std::string text = directory_refusal(directory);
  EXPECT_THAT(text, HasSubstr("first.ckpt: does not say which pipeline stage it is of"));
  EXPECT_THAT(text, HasSubstr("strategy_0.ckpt"));
}

TEST(StageDirectory, RefusesHoles) {
  const TemporaryDirectory directory;
  directory.write("a.ckpt", simple_file("a", 0, 2));
  directory.write("b.ckpt", simple_file("b", 2, 2));
  EXPECT_THAT(directory_refusal(directory),
              HasSubstr("stage 1 is missing: the files are of stages 0, 2"));
}

TEST(StageDirectory, RefusesMergedFilesAmongOthers) {
  const TemporaryDirectory directory;
  directory.write("a.ckpt", simple_file("a", 0, 2));
  directory.write("all.ckpt", simple_file("0-a", 0, 2));
  EXPECT_THAT(directory_refusal(directory), HasSubstr("all.ckpt: is a strategy of all stages"));
}

TEST(StageDirectory, RefusesMixedKinds) {
  const TemporaryDirectory directory;
  directory.write("a.ckpt", simple_file("a", 0, 2));
  directory.write("b.json", "{}");
  EXPECT_THAT(directory_refusal(directory), HasSubstr("holds both *.ckpt and *.json files"));
}

TEST(StageDirectory, RefusesDirectoriesWithoutStrategies) {
  const TemporaryDirectory directory;
  directory.write("notes.txt", "noise");
  EXPECT_THAT(directory_refusal(directory, ErrorKind::kMissing),
              HasSubstr("holds no strategy files (looked for *.ckpt and *.json)"));
}

TEST(StageDirectory, NamesTheDamagedFile) {
  const TemporaryDirectory directory;
  directory.write("a.ckpt", simple_file("a", 0, 2));
  directory.write("b.ckpt", "noise");
  EXPECT_THAT(directory_refusal(directory), HasSubstr("b.ckpt: is not a MindSpore strategy"));
}

TEST(StageDirectory, RefusesStagesOfDifferentSize) {
  const TemporaryDirectory directory;
  directory.write("a.ckpt", simple_file("a", 0, 2));
  directory.write("b.ckpt", simple_file("b", 1, 4));
  EXPECT_THAT(directory_refusal(directory),
              HasSubstr("parameter 'b': has 4 devices, but parameter 'a' has 2"));
}

TEST(StageFiles, LoadWithoutADirectoryOfTheirOwn) {
  const TemporaryDirectory directory;
  const auto late = directory.write("late.ckpt", simple_file("b", 1, 2));
  const auto early = directory.write("early.json", to_json(load_bytes(simple_file("a", 0, 2))));
  directory.write("other.ckpt", simple_file("c", 2, 2));
  const Strategy strategy = Strategy::load_stages({late, early});
  ASSERT_EQ(strategy.stage_count(), 2);
  EXPECT_TRUE(strategy.stage(0).contains("a"));
  EXPECT_TRUE(strategy.stage(1).contains("b"));
  EXPECT_EQ(Strategy::load_stages({late}).first_stage(), 1);
  EXPECT_THROW(Strategy::load_stages({}), Error);
  EXPECT_THROW(Strategy::load_stages({late, directory.path() / "other.ckpt"}), Error);
}

TEST(StrategyClass, RefusesWhatCannotBe) {
  EXPECT_THROW(Strategy({}, 0, false), Error);
  EXPECT_THROW(Strategy({{}}, 0, false), Error);
  Layout layout;
  layout.device_matrix = {2};
  EXPECT_NO_THROW(Strategy({{{"w", layout}}}, 1, false));
  EXPECT_THROW(Strategy({{{"w", layout}}}, -1, false), Error);
  EXPECT_THROW(Strategy({{{"w", layout}}}, 1, true), Error);
  EXPECT_THROW(Strategy({{{"w", layout}}, {{"v", layout}}}, 1, false), Error);
  EXPECT_THROW(Strategy({{{"w", layout}}}, 0, false).stage(1), Error);
}

}  // namespace
}  // namespace reshardfs::testing
