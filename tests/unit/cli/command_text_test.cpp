// SPDX-License-Identifier: Apache-2.0
#include "cli/advice/command_text.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "cli/words/read_words.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

TEST(CommandText, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(command_text(read_words({"export", "a b", "--", "-out"})),
            "reshardfs export 'a b' ./-out");
  EXPECT_EQ(command_text(read_words({"strategy", "show", "x;y"})), "reshardfs strategy show 'x;y'");
}

TEST(CommandText, HasOptionsByTheirLongNames) {
  EXPECT_EQ(command_text(read_words({"verify", "-vj8", "ckpt", "--step="})),
            "reshardfs verify ckpt --verbose --jobs 8 --step=");
  EXPECT_EQ(command_text(read_words({"inspect", "ckpt", "--include=-x", "--json=false"})),
            "reshardfs inspect ckpt --include=-x --json=false");
}

TEST(CommandText, MakesTheMountPoint) {
  const test::TempDir dir;
  const std::string there = dir.path().string();
  EXPECT_EQ(command_text(read_words({"mount", "a", there})), "reshardfs mount a " + there);
  const std::string none = there + "/none";
  EXPECT_EQ(command_text(read_words({"mount", "a", none})),
            "mkdir -p " + none + " && reshardfs mount a " + none);
}

TEST(CommandText, ReplacesTheLastUseOfAnOption) {
  const Given given = read_words({"plan", "a", "--step", "1", "--step", "2"});
  EXPECT_EQ(command_text(with_option(given, "step", "3")), "reshardfs plan a --step 1 --step 3");
  EXPECT_EQ(command_text(with_option(given, "src-strategy", "tp=2")),
            "reshardfs plan a --step 1 --step 2 --src-strategy tp=2");
}

TEST(CommandText, ProposesNamesOfWhatIsToBeWritten) {
  EXPECT_EQ(completed_text(read_words({"report", "a"})), "reshardfs report a --output report.html");
  EXPECT_EQ(completed_text(read_words({"export", "a", "--checksum"})),
            "reshardfs export a converted --checksum");
}

TEST(CommandText, ProposesNothingThatOnlyTheUserKnows) {
  EXPECT_EQ(completed_text(read_words({"export"})), "");
  EXPECT_EQ(completed_text(read_words({"diff", "a"})), "");
  EXPECT_EQ(completed_text(read_words({"map", "show", "m"})), "");
}

}  // namespace
}  // namespace reshardfs
