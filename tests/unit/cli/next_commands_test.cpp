// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/next_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using ::testing::ElementsAre;

NextFacts facts(const std::string& source) {
  NextFacts facts;
  facts.source = source;
  facts.mountpoint = "mnt";
  facts.directory = "out";
  facts.rules = "strategy.toml";
  facts.options = [](const std::string&) { return std::vector<std::string>(); };
  return facts;
}

/// Without what they are for.
std::vector<std::string> next_lines(const NextFacts& facts) {
  std::vector<std::string> lines;
  for (const NextCommand& next : next_commands(facts)) {
    EXPECT_NE(next.job, "");
    lines.push_back(next.command);
  }
  return lines;
}

TEST(NextCommands, OfAWholeModel) {
  NextFacts whole = facts("a b");
  whole.can_mount = whole.can_verify = true;
  EXPECT_THAT(next_lines(whole),
              ElementsAre("mkdir -p mnt && reshardfs mount 'a b' mnt", "reshardfs export 'a b' out",
                          "reshardfs verify 'a b'"));
  whole.map = "mindformers-qwen3";
  EXPECT_THAT(next_lines(whole),
              ElementsAre("mkdir -p mnt && reshardfs mount 'a b' mnt", "reshardfs export 'a b' out",
                          "mkdir -p mnt && reshardfs mount 'a b' mnt --map mindformers-qwen3",
                          "reshardfs verify 'a b'"));
}

TEST(NextCommands, OfAModelThatLoadersOfHuggingFaceRead) {
  NextFacts whole = facts("m");
  whole.can_mount = whole.shows_hf = true;
  EXPECT_THAT(next_lines(whole), ElementsAre("mkdir -p mnt && reshardfs mount m mnt",
                                             "reshardfs export m out --views hf"));
  EXPECT_THAT(next_commands(whole).front().job, ::testing::HasSubstr("vllm serve mnt/hf"));
}

TEST(NextCommands, SayWhatAModelOfOthersNeedsToBeServed) {
  NextFacts ranks = facts("run");
  ranks.can_mount = true;
  ranks.strategies = {"train.ckpt"};
  ranks.hf_needs = "--map mindformers-qwen3, and --model-config DIR";
  EXPECT_THAT(next_commands(ranks)[1].job,
              ::testing::EndsWith(
                  "hf/, to serve it, needs --map mindformers-qwen3, and --model-config DIR"));
}

TEST(NextCommands, OfAPartOfAModel) {
  NextFacts part = facts("part");
  part.can_mount = part.needs_partial = true;
  EXPECT_THAT(next_lines(part), ElementsAre("mkdir -p mnt && reshardfs mount part mnt --partial",
                                            "reshardfs export part out --partial"));
  part.sizes = "tp=2";
  EXPECT_THAT(next_lines(part),
              ElementsAre("mkdir -p mnt && reshardfs mount part mnt --src-strategy tp=2 --partial",
                          "reshardfs export part out --src-strategy tp=2 --partial"));
}

TEST(NextCommands, TheStrategyThatFits) {
  NextFacts ranks = facts("ckpt");
  ranks.can_mount = ranks.can_verify = ranks.can_guess = true;
  ranks.strategies = {"-s.ckpt"};
  EXPECT_THAT(next_lines(ranks),
              ElementsAre("reshardfs inspect ckpt --src-strategy ./-s.ckpt",
                          "mkdir -p mnt && reshardfs mount ckpt mnt --src-strategy ./-s.ckpt",
                          "reshardfs export ckpt out --src-strategy ./-s.ckpt",
                          "reshardfs verify ckpt --src-strategy ./-s.ckpt"));
}

TEST(NextCommands, OfSeveralStrategiesTheUserChooses) {
  NextFacts ranks = facts("ckpt");
  ranks.can_guess = true;
  ranks.strategies = {"a", "b", "c", "d"};
  EXPECT_THAT(next_lines(ranks), ElementsAre("reshardfs inspect ckpt --src-strategy a",
                                             "reshardfs inspect ckpt --src-strategy b",
                                             "reshardfs inspect ckpt --src-strategy c"));
}

TEST(NextCommands, WithoutAStrategy) {
  NextFacts ranks = facts("-c");
  ranks.can_guess = true;
  ranks.options = [](const std::string& command) {
    if (command == "strategy guess") return std::vector<std::string>{"--step", "3_1"};
    return std::vector<std::string>{"--no-symlinks"};
  };
  EXPECT_THAT(next_lines(ranks),
              ElementsAre("reshardfs strategy guess ./-c --step 3_1 -O strategy.toml",
                          "reshardfs inspect ./-c --no-symlinks --list"));
}

TEST(NextCommands, SizesThatShapesProve) {
  NextFacts ranks = facts("c");
  ranks.can_mount = ranks.can_verify = true;
  ranks.sizes = "tp=4,pp=2";
  EXPECT_THAT(next_lines(ranks),
              ElementsAre("mkdir -p mnt && reshardfs mount c mnt --src-strategy tp=4,pp=2",
                          "reshardfs export c out --src-strategy tp=4,pp=2"));
}

TEST(NextCommands, NoCommandShowsASecret) {
  NextFacts none;
  none.can_mount = true;
  EXPECT_TRUE(next_commands(none).empty());
}

TEST(NextCommands, WhereNothingCanBeMounted) {
  EXPECT_THAT(next_lines(facts("c")), ElementsAre("reshardfs inspect c --list"));
}

}  // namespace
}  // namespace reshardfs
