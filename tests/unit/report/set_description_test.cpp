// SPDX-License-Identifier: Apache-2.0
#include "report/text/set_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json/json_value.h"
#include "report/text/terminal.h"

namespace reshardfs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SetDescription ranks_of_a_job() {
  SetDescription set;
  set.kind = "rank_files";
  set.format = "a file or more for each of 8 ranks";
  set.written_by = {{"transformers 4.51.0", "config.json"}};
  set.model.networks = {"MindFormers"};
  set.model.maps = {"mindformers-llama"};
  set.model.model_type = "llama";
  set.model.layers = 2;
  set.model.weights = 20;
  set.model.states = 40;
  set.layout.ranks = {Rank(0), Rank(1), Rank(2), Rank(3)};
  return set;
}

TEST(SetDescription, SaysWhatIsKnown) {
  SetDescription set = ranks_of_a_job();
  set.model.elements = 8'190'000'000;
  set.model.bytes = 2048;
  set.layout.stages = 2;
  set.layout.devices = 2;
  set.layout.tp = 2;
  set.layout.dp = 1;
  set.layout.by = "train.ckpt";
  EXPECT_EQ(description_text(set, kAnyWidth),
            "format      a file or more for each of 8 ranks\n"
            "written by  transformers 4.51.0 (config.json)\n"
            "model       model_type llama (config.json); names of MindFormers (map "
            "mindformers-llama); 2 layers\n"
            "weights     20 parameters, 8.19B elements, 2.0 KiB\n"
            "training    40 states of the optimizer or the training job, by their names\n"
            "ranks       0-3: 2 pipeline stages of 2 devices, tp=2, pp=2, dp=1 (train.ckpt)\n");
}

TEST(SetDescription, LeavesOutWhatIsNot) {
  SetDescription set;
  set.format = "one file";
  set.model.weights = 1;
  set.layout.ranks = {Rank(0)};
  EXPECT_EQ(description_text(set, kAnyWidth),
            "format      one file\n"
            "written by  unknown\n"
            "weights     1 parameter\n"
            "training    no states\n"
            "ranks       0\n");
}

TEST(SetDescription, Strategies) {
  SetDescription set = ranks_of_a_job();
  set.lacks = "the strategy";
  set.strategies = {{"a.ckpt", ""}, {"b.ckpt", "it is of 4 ranks"}};
  const std::string text = description_text(set, kAnyWidth);
  EXPECT_THAT(text, HasSubstr("missing     the strategy\n"));
  EXPECT_THAT(text, HasSubstr("strategy    a.ckpt fits\n"));
  EXPECT_THAT(text, HasSubstr("strategy    b.ckpt does not fit: it is of 4 ranks\n"));
}

TEST(SetDescription, NamesNeverTurnTheTerminal) {
  SetDescription set = ranks_of_a_job();
  set.model.model_type = "a\033[31m";
  set.written_by = {{"\033", "\n"}};
  set.strategies = {{"\r", "\t"}};
  const std::string text = description_text(set, kAnyWidth);
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(SetDescription, LongLinesAreBrokenButNoCommand) {
  SetDescription set = ranks_of_a_job();
  set.format = std::string(30, 'x') + " " + std::string(30, 'y');
  EXPECT_THAT(description_text(set, 50), HasSubstr("\n            yyy"));
  EXPECT_EQ(next_text({}), "");
  EXPECT_EQ(next_text({{"check it", "reshardfs verify a"}}),
            "\nnext:\n  # check it\n  reshardfs verify a\n");
}

TEST(SetDescription, OfAPartThereIsNoMore) {
  SetDescription part;
  part.format = "the directory of rank 1 of ckpt";
  part.place = {"more"};
  EXPECT_EQ(part_text("ckpt/rank_1", part, kAnyWidth),
            "ckpt/rank_1: the directory of rank 1 of ckpt\nmore\n");
}

TEST(SetDescription, JsonHasNullForWhatIsUnknown) {
  SetDescription set = ranks_of_a_job();
  set.next = {{"check it", "reshardfs verify a"}};
  set.index = {{"b", "[1]"}, {"a", "1"}, {"b", "2"}};
  JsonWriter writer;
  writer.open_object();
  write_description(writer, set);
  writer.close_object();
  const auto document = JsonDocument::parse(writer.take());
  ASSERT_TRUE(document);
  const JsonValue json = document->value()["description"];
  EXPECT_TRUE(json["model"].find("elements")->is_null());
  EXPECT_TRUE(json["layout"].find("tp")->is_null());
  EXPECT_EQ(json["model"]["layers"].count(), 2U);
  EXPECT_EQ(json["layout"]["ranks"].size(), 4U);
  EXPECT_EQ((*json["next"].begin()).text(), "reshardfs verify a");
  EXPECT_EQ((*json["metadata"]["index"].begin()).key(), "a");
  EXPECT_EQ(json["metadata"]["index"].size(), 2U);
  EXPECT_EQ(json["metadata"]["index"]["b"].count(), 2U);
}

}  // namespace
}  // namespace reshardfs
