// SPDX-License-Identifier: Apache-2.0
#include "daemon/complete_steps.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process/counters.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A model of one tensor with four bytes.
std::string model(const std::string& bytes) {
  const std::string header = R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + bytes;
}

class CompleteStepsTest : public testing::Test {
 protected:
  void save(int step, const std::string& content) const {
    dir_.write("checkpoint-" + std::to_string(step) + "/model.safetensors", content);
  }
  CompleteSteps steps() const {
    ConversionOptions options;
    options.source.path = dir_.path();
    return {options, std::nullopt};
  }
  static std::vector<std::string> names(CompleteSteps& steps) {
    std::vector<std::string> names;
    for (const auto& step : steps.list({}).steps) names.push_back(step.name);
    return names;
  }
  static bool eventually(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  /// A step is left alone for a while after each look at it.
  static bool become(CompleteSteps& steps, const std::vector<std::string>& expected) {
    return eventually([&] { return names(steps) == expected; });
  }

  test::TempDir dir_;
};

TEST_F(CompleteStepsTest, ListsAStepOnceItIsWhole) {
  save(10, model("abcd"));
  save(20, model("ab"));
  CompleteSteps steps = this->steps();
  EXPECT_THAT(names(steps), ElementsAre("10"));
  EXPECT_THAT(steps.obstacle(), HasSubstr("step 20: "));
  save(20, model("abcd"));
  EXPECT_TRUE(become(steps, {"10", "20"}));
  EXPECT_EQ(steps.obstacle(), "");
  std::filesystem::remove_all(dir_.path() / "checkpoint-10");
  EXPECT_TRUE(become(steps, {"20"}));
  save(20, "");
  EXPECT_TRUE(become(steps, {}));
}

TEST_F(CompleteStepsTest, TellsWhatWasSavedAgain) {
  save(10, model("abcd"));
  CompleteSteps steps = this->steps();
  const std::string first = steps.list({}).steps.at(0).contents;
  EXPECT_NE(first, "");
  EXPECT_EQ(steps.list({}).steps.at(0).contents, first);
  std::filesystem::remove_all(dir_.path() / "checkpoint-10");
  save(10, model("efgh"));
  EXPECT_TRUE(eventually([&] { return steps.list({}).steps.at(0).contents != first; }));
}

TEST_F(CompleteStepsTest, OpensNoStepThatHasNotChanged) {
  for (int step = 1; step <= 40; ++step) save(step, model("abcd"));
  CompleteSteps steps = this->steps();
  while (steps.list({}).has_more) {
  }
  const auto reads = [] { return counters().values().source_reads(); };
  const auto before = reads();
  EXPECT_EQ(names(steps).size(), 40U);
  EXPECT_EQ(reads(), before);
  // Of an old step that nobody reads, only its directory's time is looked at.
  save(3, model("efgh"));
  EXPECT_EQ(names(steps).size(), 40U);
  EXPECT_EQ(reads(), before);
  EXPECT_TRUE(eventually([&] {
    steps.list({"3"});
    return reads() > before;
  }));
}

TEST_F(CompleteStepsTest, LooksAgainAtWhatIsDoubted) {
  for (int step = 1; step <= 40; ++step) save(step, model("abcd"));
  CompleteSteps steps = this->steps();
  while (steps.list({}).has_more) {
  }
  save(3, model("a"));
  EXPECT_EQ(names(steps).size(), 40U);
  steps.doubt("3");
  EXPECT_EQ(names(steps).size(), 39U);
}

}  // namespace
}  // namespace reshardfs
