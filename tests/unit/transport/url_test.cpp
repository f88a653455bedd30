// SPDX-License-Identifier: Apache-2.0
#include "transport/url.h"

#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(Url, EncodesAllButUnreservedCharacters) {
  EXPECT_EQ(url_encoded("aZ09-._~", false), "aZ09-._~");
  EXPECT_EQ(url_encoded("a b+c/d%é", false), "a%20b%2Bc%2Fd%25%C3%A9");
  EXPECT_EQ(url_encoded("a/b c", true), "a/b%20c");
}

TEST(Url, DecodesWhatIsEncoded) {
  for (const std::string& text :
       std::vector<std::string>{"", "a b+c/d%é", "100%", "%2", "%zz", "\x01\xff"}) {
    EXPECT_EQ(url_decoded(url_encoded(text, false)), text);
  }
  EXPECT_EQ(url_decoded("100%"), "100%");
  EXPECT_EQ(url_decoded("%2"), "%2");
  EXPECT_EQ(url_decoded("%zz%41"), "%zzA");
}

TEST(Url, SplitsIntoParts) {
  const UrlParts parts = split_url("HTTPS://user@Host:81/a/b%20c?x=1#top");
  EXPECT_EQ(parts.scheme, "https");
  EXPECT_EQ(parts.authority, "user@Host:81");
  EXPECT_EQ(parts.path, "/a/b%20c");
  EXPECT_EQ(parts.query, "?x=1");
  EXPECT_EQ(split_url("http://host").path, "");
  EXPECT_EQ(split_url("http://host?x").query, "?x");
}

TEST(Url, KeysOfObjectsMayHaveAnyCharacter) {
  const UrlParts parts = split_url("s3://bucket/a?b#c");
  EXPECT_EQ(parts.authority, "bucket");
  EXPECT_EQ(parts.path, "/a?b#c");
  EXPECT_EQ(parts.query, "");
}

TEST(Url, PathsAreNone) {
  for (const char* text : {"", "/a/b", "a/b", "./s3:/x", "://x", "1a://x", "a b://x", "C:\\x"}) {
    EXPECT_EQ(split_url(text).scheme, "") << text;
  }
}

TEST(Url, OriginsAreOfOneHost) {
  EXPECT_EQ(origin_of("http://Host:80/a"), "http://host:80");
  EXPECT_NE(origin_of("http://host/a"), origin_of("https://host/a"));
}

}  // namespace
}  // namespace reshardfs
