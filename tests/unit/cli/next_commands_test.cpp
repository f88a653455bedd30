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
  facts.rules = "strategy.toml";
  facts.options = [](const std::string&) { return std::vector<std::string>(); };
  return facts;
}

TEST(NextCommands, OfAWholeModel) {
  NextFacts whole = facts("a b");
  whole.can_mount = whole.can_verify = true;
  EXPECT_THAT(next_commands(whole),
              ElementsAre("mkdir -p mnt && reshardfs mount 'a b' mnt", "reshardfs verify 'a b'"));
  whole.map = "mindformers-qwen3";
  EXPECT_THAT(next_commands(whole),
              ElementsAre("mkdir -p mnt && reshardfs mount 'a b' mnt",
                          "mkdir -p mnt && reshardfs mount 'a b' mnt --map mindformers-qwen3",
                          "reshardfs verify 'a b'"));
}

TEST(NextCommands, OfAPartOfAModel) {
  NextFacts part = facts("part");
  part.can_mount = part.needs_partial = true;
  EXPECT_THAT(next_commands(part),
              ElementsAre("mkdir -p mnt && reshardfs mount part mnt --partial"));
  part.sizes = "tp=2";
  EXPECT_THAT(next_commands(part),
              ElementsAre("mkdir -p mnt && reshardfs mount part mnt --src-strategy tp=2 --partial",
                          "reshardfs plan part --src-strategy tp=2 --partial"));
}

TEST(NextCommands, TheStrategyThatFits) {
  NextFacts ranks = facts("ckpt");
  ranks.can_mount = ranks.can_verify = ranks.can_guess = true;
  ranks.strategies = {"-s.ckpt"};
  EXPECT_THAT(next_commands(ranks),
              ElementsAre("reshardfs inspect ckpt --src-strategy ./-s.ckpt",
                          "mkdir -p mnt && reshardfs mount ckpt mnt --src-strategy ./-s.ckpt",
                          "reshardfs verify ckpt --src-strategy ./-s.ckpt"));
}

TEST(NextCommands, OfSeveralStrategiesTheUserChooses) {
  NextFacts ranks = facts("ckpt");
  ranks.can_guess = true;
  ranks.strategies = {"a", "b", "c", "d"};
  EXPECT_THAT(next_commands(ranks), ElementsAre("reshardfs inspect ckpt --src-strategy a",
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
  EXPECT_THAT(next_commands(ranks),
              ElementsAre("reshardfs strategy guess ./-c --step 3_1 -O strategy.toml",
                          "reshardfs inspect ./-c --no-symlinks --list"));
}

TEST(NextCommands, SizesThatShapesProve) {
  NextFacts ranks = facts("c");
  ranks.can_mount = ranks.can_verify = true;
  ranks.sizes = "tp=4,pp=2";
  EXPECT_THAT(next_commands(ranks),
              ElementsAre("mkdir -p mnt && reshardfs mount c mnt --src-strategy tp=4,pp=2",
                          "reshardfs plan c --src-strategy tp=4,pp=2"));
}

TEST(NextCommands, NoCommandShowsASecret) {
  NextFacts none;
  none.can_mount = true;
  EXPECT_TRUE(next_commands(none).empty());
}

TEST(NextCommands, WhereNothingCanBeMounted) {
  EXPECT_THAT(next_commands(facts("c")), ElementsAre("reshardfs inspect c --list"));
}

}  // namespace
}  // namespace reshardfs
