// SPDX-License-Identifier: Apache-2.0
#include "vfs/saved_steps.h"

#include <string>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

constexpr const char* kText =
    R"({"changed":-5,"newest":"9_60","steps":[)"
    R"({"branch":7,"identity":"ab","name":"9_50","shown":true},)"
    R"({"branch":8,"identity":"","name":"9_60","shown":false}],"used":[1,1073741823]})";

TEST(SavedSteps, HaveTheTextThatTheyAlwaysHad) {
  SavedSteps steps;
  steps.steps = {{7, "9_50", true, "ab"}, {8, "9_60", false, ""}};
  steps.used = {1, kMaxBranchNumber};
  steps.newest = "9_60";
  steps.changed_ns = -5;
  EXPECT_EQ(encode(steps), kText);
  EXPECT_EQ(encode(decode_steps(kText)), kText);
  EXPECT_EQ(encode(SavedSteps{}), R"({"changed":0,"newest":"","steps":[],"used":[]})");
}

TEST(SavedSteps, SayWhichAreFolded) {
  SavedSteps steps;
  steps.steps = {{7, "9_50", true, "ab", true}, {8, "9_60", true, "cd", false}};
  const SavedSteps again = decode_steps(encode(steps));
  ASSERT_EQ(again.steps.size(), 2U);
  EXPECT_TRUE(again.steps[0].folded);
  EXPECT_FALSE(again.steps[1].folded);
}

TEST(SavedSteps, AreRefusedWhereTheyCannotBeRead) {
  const std::string whole = kText;
  for (const std::string key : {"changed", "newest", "steps", "branch", "identity", "used"}) {
    std::string without = whole;
    without.replace(without.find(key), 1, "?");
    test::expect_error(ErrorKind::kUnsupported, {"is incomplete", key},
                       [&] { decode_steps(without); });
  }
  for (const std::string text : {"", "[]", "{}", "{"}) {
    test::expect_error(ErrorKind::kUnsupported, {"is incomplete"}, [&] { decode_steps(text); });
  }
  for (const std::string used : {"-1", "4294967296", "\"1\"", "1.5"}) {
    const std::string text = whole.substr(0, whole.find("[1,")) + "[" + used + "]}";
    test::expect_error(ErrorKind::kUnsupported, {"used"}, [&] { decode_steps(text); });
  }
}

}  // namespace
}  // namespace reshardfs
