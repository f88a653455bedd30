// SPDX-License-Identifier: Apache-2.0
/// `strategy convert` chooses the form by the name of the output.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/strategy.h"

#include "cli/app.h"
#include "daemon/started_program.h"
#include "support/temp_dir.h"

namespace reshardfs::testing {
namespace {

namespace fs = std::filesystem;

int run_command_line(const std::vector<std::string>& words) {
  StartedProgram program("reshardfs", words);
  return reshardfs::run_command_line(program);
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(StrategyConvert, WritesRulesAndReadsThemBack) {
  const test::TempDir directory;
  const fs::path golden = fs::path(RESHARDFS_GOLDEN_DIR) / "pp2tp2_to_tp4";
  const std::string rules = (directory.path() / "rules.toml").string();
  const std::string back = (directory.path() / "back.ckpt").string();
  ASSERT_EQ(
      run_command_line({"strategy", "convert", (golden / "src_stages").string(), "-O", rules}),
      kExitDone);
  EXPECT_THAT(text_of(rules), ::testing::HasSubstr("[[rule]]"));
  // Parameters without a layout are refused until the user says that they are whole.
  std::string text = text_of(rules);
  const std::size_t at = text.find("\"error\"");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(rules) << text.replace(at, 7, "\"replicate\"");
  ASSERT_EQ(run_command_line(
                {"strategy", "convert", rules, "--source", (golden / "src").string(), "-O", back}),
            kExitDone);
  const Strategy read = Strategy::load(back);
  const Strategy original = Strategy::load(golden / "src_strategy.ckpt");
  ASSERT_EQ(read.stage_count(), original.stage_count());
  for (std::int64_t stage = 0; stage < original.stage_count(); ++stage) {
    for (const auto& [name, layout] : original.stage(stage)) {
      ASSERT_TRUE(read.stage(stage).contains(name)) << name;
      EXPECT_EQ(read.stage(stage).at(name).tensor_map, layout.tensor_map) << name;
    }
  }
}

TEST(StrategyConvert, RefusesWhatRulesCannotSay) {
  const test::TempDir directory;
  const fs::path one_stage = fs::path(RESHARDFS_GOLDEN_DIR) / "by_stage_path" / "src_strategy.ckpt";
  const fs::path rules = directory.path() / "rules.toml";
  EXPECT_EQ(run_command_line({"strategy", "convert", one_stage.string(), "-O", rules.string()}),
            kExitBadInput);
  EXPECT_FALSE(fs::exists(rules));
}

}  // namespace
}  // namespace reshardfs::testing
