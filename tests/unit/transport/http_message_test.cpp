// SPDX-License-Identifier: Apache-2.0
#include "transport/http_message.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(HttpMessage, FindsHeadersWhateverTheirCase) {
  HttpHead head;
  head.add_line("Content-LENGTH:  12 \r\n");
  head.add_line("X-Empty:\r\n");
  head.add_line("no header\r\n");
  head.add_line(": no name\r\n");
  EXPECT_EQ(head.number("content-length"), 12U);
  EXPECT_EQ(head.value("x-empty"), "");
  EXPECT_NE(head.find("x-empty"), nullptr);
  EXPECT_EQ(head.find("y"), nullptr);
  EXPECT_EQ(head.headers.size(), 2U);
}

TEST(HttpMessage, NumbersAreDigitsAlone) {
  EXPECT_EQ(parse_decimal("0"), 0U);
  EXPECT_EQ(parse_decimal("9223372036854775807"), 9223372036854775807U);
  for (const char* text :
       {"", "-1", "+1", " 1", "1 ", "0x1", "1.0", "9223372036854775808", "99999999999999999999"}) {
    EXPECT_EQ(parse_decimal(text), std::nullopt) << text;
  }
}

TEST(HttpMessage, ReadsContentRanges) {
  EXPECT_EQ(parse_content_range("bytes 0-0/1"), (ContentRange{0, 0, 1}));
  EXPECT_EQ(parse_content_range("bytes 10-19/100"), (ContentRange{10, 19, 100}));
  for (const char* text : {"", "bytes", "bytes */100", "bytes 0-9/*", "bytes 9-0/100",
                           "bytes 0-100/100", "bytes -5/100", "bytes 0-9", "items 0-9/100",
                           "bytes 0-9/100 ", "bytes 0/9-100", "bytes a-b/c"}) {
    EXPECT_EQ(parse_content_range(text), std::nullopt) << text;
  }
}

TEST(HttpMessage, TellsStrongEtags) {
  EXPECT_TRUE(is_strong_etag("\"abc\""));
  for (const char* text : {"", "\"\"", "abc", "W/\"abc\"", "\"abc", "abc\""}) {
    EXPECT_FALSE(is_strong_etag(text)) << text;
  }
}

}  // namespace
}  // namespace reshardfs
