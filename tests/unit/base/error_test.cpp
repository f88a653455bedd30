// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/error.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(Error, ShowsItsContextInOneLine) {
  const Error error = Error(ErrorKind::kBadInput, "is cut off")
                          .hint("copy it again")
                          .for_parameter("w")
                          .at_offset(17)
                          .in_file("/a/b.ckpt");
  EXPECT_STREQ(error.what(), "/a/b.ckpt: offset 17: parameter 'w': is cut off; copy it again");
  EXPECT_EQ(error.kind(), ErrorKind::kBadInput);
}

TEST(Error, KeepsTheInnermostContext) {
  Error error = Error(ErrorKind::kIo, "x").in_file("inner").for_parameter("p").at_offset(1);
  error.in_file("outer").for_parameter("q").at_offset(2);
  EXPECT_STREQ(error.what(), "inner: offset 1: parameter 'p': x");
}

TEST(Error, TakesMoreThatACallerKnows) {
  Error error = Error(ErrorKind::kIo, "is wide").for_parameter("p").hint("do this");
  error.explain(" and long");
  EXPECT_STREQ(error.what(), "parameter 'p': is wide and long; do this");
  EXPECT_EQ(error.message(), "is wide and long");
}

TEST(Error, CarriesTheErrno) {
  const Error error = io_error("read", "f", ENOSPC);
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_EQ(error.os_error(), ENOSPC);
  EXPECT_STREQ(error.what(), "f: cannot read: No space left on device");
}

TEST(Error, IsOneLineWhateverItIsGiven) {
  const Error error = Error(ErrorKind::kUsage, "a\nb 'c'").hint("mkdir -p x\ny");
  EXPECT_STREQ(error.what(), "a\\nb 'c'; mkdir -p x\\ny");
}

TEST(Printable, EscapesWhatMovesATerminal) {
  EXPECT_EQ(printable("plain.weight"), "plain.weight");
  EXPECT_EQ(printable("\x1b[31m\n\x7f"), "\\x1b[31m\\n\\x7f");
  EXPECT_EQ(printable("it's \\"), "it\\'s \\\\");
  EXPECT_EQ(printable("\xc3\xa4"), "\xc3\xa4");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  // Line separator, right-to-left override and isolate; their neighbours are harmless.
  EXPECT_EQ(printable("\u2028\u202e\u2066"), "\\xe2\\x80\\xa8\\xe2\\x80\\xae\\xe2\\x81\\xa6");
  EXPECT_EQ(printable("\u2027\u202f\u2065\u206a\u00a0"), "\u2027\u202f\u2065\u206a\u00a0");
  EXPECT_LE(printable(std::string(10'000, 'x')).size(), 210U);
}

}  // namespace
}  // namespace reshardfs
