// SPDX-License-Identifier: Apache-2.0
/// The strategies of all golden cases, written as rules.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules_writer_samples.h"

namespace reshardfs::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

/// "case/file" of each strategy file that golden cases have, and of directories of stages.
std::vector<std::string> golden_strategies() {
  std::vector<std::string> found;
  const fs::path root(RESHARDFS_GOLDEN_DIR);
  for (const fs::directory_entry& directory : fs::directory_iterator(root)) {
    for (const char* name : {"src_strategy.ckpt", "dst_strategy.ckpt", "src_strategy.json",
                             "dst_strategy.json", "src_stages", "dst_stages"}) {
      if (!fs::exists(directory.path() / name)) continue;
      found.push_back(directory.path().filename().string() + "/" + name);
    }
  }
  return found;
}

TEST(RulesWriterGolden, GivesEveryDeviceTheSameSlicesOrSaysWhyNot) {
  std::size_t written_count = 0;
  std::map<std::string, std::string> refused;
  for (const std::string& name : golden_strategies()) {
    SCOPED_TRACE(name);
    const Strategy strategy = Strategy::load(fs::path(RESHARDFS_GOLDEN_DIR) / name);
    try {
      written(strategy);
      ++written_count;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      refused[name] = error.what();
    }
  }
  EXPECT_GE(written_count, 229U);
  const std::string of_one_stage =
      "it is of pipeline stage 1 alone, and rules are for all stages; name the files of all "
      "stages, "
      "or a directory with them";
  EXPECT_THAT(refused, UnorderedElementsAre(Pair("by_stage_path/src_strategy.ckpt", of_one_stage),
                                            Pair("by_stage_path/src_strategy.json", of_one_stage)));
}

}  // namespace
}  // namespace reshardfs::testing
