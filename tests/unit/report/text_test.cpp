// SPDX-License-Identifier: Apache-2.0
#include "report/text/text.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(Shortened, KeepsBeginAndEnd) {
  EXPECT_EQ(shortened("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(shortened("abcdefghij", 9), "abc...hij");
  EXPECT_EQ(shortened("abcdefghij", 8), "ab...hij");
  EXPECT_EQ(shortened("abcdefghij", 3), "abcdefghij") << "nothing would be left of it";
}

TEST(Shortened, CutsNoCharacterApart) {
  EXPECT_EQ(shortened("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6", 7),
            "\u00e4\u00f6...\u00e4\u00f6");
  EXPECT_EQ(shortened("\u5c42\u5c42\u5c42\u5c42.weight", 10), "\u5c42...ight");
  EXPECT_EQ(shortened("weight.\u5c42\u5c42\u5c42\u5c42", 10), "wei...\u5c42\u5c42");
}

TEST(TextWidth, CountsWideCharactersTwice) {
  EXPECT_EQ(text_width("\u5c42.0.\u91cd\u307f"), 9U);
  EXPECT_EQ(text_width("e\u0301"), 1U);
  EXPECT_EQ(text_width("\xff\xfe"), 2U);
  EXPECT_EQ(text_width("\u251c\u2500\u2588"), 3U);
}

TEST(Wrapped, BreaksBehindCommasAndBlanks) {
  EXPECT_EQ(wrapped("one, two three", 80, 2), "one, two three");
  EXPECT_EQ(wrapped("one, two three", 8, 2), "one, two\n  three");
  EXPECT_EQ(wrapped("one, two three", 7, 2), "one,\n  two\n  three");
  EXPECT_EQ(wrapped("1,22,333,4444", 6, 1), "1,22,\n 333,\n 4444");
}

TEST(Wrapped, LeavesWordsThatAreTooLong) {
  EXPECT_EQ(wrapped("  abcdefghij, k", 5, 2), "  abcdefghij,\n  k");
}

TEST(TextTable, WrapsItsLastColumn) {
  TextTable table({"A", "LIST"}, {0});
  table.add_row({"1", "one, two, three, four"});
  table.add_row({"22", "five"});
  table.wrap_last_column(14);
  EXPECT_EQ(table.str(),
            " A  LIST\n"
            " 1  one, two,\n"
            "    three,\n"
            "    four\n"
            "22  five\n");
  EXPECT_EQ(widest_line(table.str()), 13U);
}

TEST(TextTable, HasLinesAcrossItsColumns) {
  TextTable table({"A", "NUMBER"}, {1});
  table.add_row({"x", "1"});
  table.add_line("a line that is wider than all of it");
  table.add_row({"", "23"});
  EXPECT_EQ(table.str(), "A  NUMBER\nx       1\na line that is wider than all of it\n       23\n");
}

}  // namespace
}  // namespace reshardfs
