// SPDX-License-Identifier: Apache-2.0
#include "base/text/shell_text.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(ShellWord, QuotesWhatTheShellWouldTake) {
  EXPECT_EQ(shell_word("/a/b-1_2.ckpt"), "/a/b-1_2.ckpt");
  EXPECT_EQ(shell_word("tp=8,dp=2"), "tp=8,dp=2");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("*.weight"), "'*.weight'");
  EXPECT_EQ(shell_word("~x"), "'~x'");
  EXPECT_EQ(shell_word("$(rm -r x)`y`"), "'$(rm -r x)`y`'");
  EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
  EXPECT_EQ(shell_word("a\\b"), R"('a\b')");
  EXPECT_EQ(shell_word("層"), "'層'");
}

TEST(ShellWord, EscapesWhatDoesNotShow) {
  EXPECT_EQ(shell_word("a\nb"), R"($'a\012b')");
  EXPECT_EQ(shell_word("\x1b[31m'\\"), R"($'\033[31m\'\\')");
  EXPECT_EQ(shell_word("\xff"), R"($'\377')");
  EXPECT_EQ(shell_word("\xe2\x80\xae"), R"($'\342\200\256')") << "turns the direction of the text";
}

TEST(ShellLine, HasBlanksBetweenWords) {
  EXPECT_EQ(shell_line({"reshardfs", "report", "my ckpt"}), "reshardfs report 'my ckpt'");
  EXPECT_EQ(shell_line({}), "");
}

}  // namespace
}  // namespace reshardfs
