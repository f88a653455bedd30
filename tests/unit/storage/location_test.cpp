// SPDX-License-Identifier: Apache-2.0
#include "storage/location.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "storage/backend.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;

std::string location(const std::string& text) {
  return absolute_location(text).string();
}
/// What is asked of a server for a location that was given so.
std::string asked(const std::string& text) {
  return web_url(absolute_location(text));
}

TEST(Location, PathsStayPaths) {
  for (const char* text : {"/a/b", "/a/../b", "/a b%20c", "/a//b/", "/x?y#z", "/", "/http://h/x"}) {
    EXPECT_EQ(location(text), text);
    EXPECT_EQ(absolute_source(text), text);
    EXPECT_EQ(scheme_of(text), "");
    EXPECT_EQ(shown_location(text), text);
  }
  EXPECT_EQ(absolute_location("a/b"), std::filesystem::current_path() / "a/b");
}

// A scheme begins with a letter: what does not is a path as any other.
TEST(Location, WhatIsAlmostAUrlIsAPath) {
  for (const char* text : {"1a://x/y", "a b://x", "_://x", "://x"}) {
    EXPECT_EQ(absolute_location(text), std::filesystem::absolute(text)) << text;
  }
}

TEST(Location, UrlsAreNamedWithoutEncodingAndQuery) {
  const std::vector<std::pair<std::string, std::string>> names{
      {"http://h", "http://h"},
      {"http://h/", "http://h"},
      {"HTTPS://Host.Example:8443/A/b//", "https://host.example:8443/A/b"},
      {"http://h/a%20b/%C3%A9%2B%25", "http://h/a b/é+%"},
      {"http://h1/a?sig=secret", "http://h1/a"},
      {"http://h2/a/?sig=a/b/", "http://h2/a"},
      {"http://h/a#part", "http://h/a"},
      {"http://h3?x", "http://h3"},
      {"http://h/100%", "http://h/100%"},
      {"s3://Bucket/a/b/", "s3://Bucket/a/b"},
      {"S3://bucket", "s3://bucket"},
      {"s3://", "s3://"},
      {"s3:///", "s3://"},
      {"s3://bucket/a?b#c%20+", "s3://bucket/a?b#c%20+"},
      {"urls:///d/list.json", "urls:///d/list.json"}};
  for (const auto& [text, name] : names) {
    EXPECT_EQ(location(text), name) << text;
    EXPECT_EQ(location(name).find("secret"), std::string::npos);
  }
}

TEST(Location, RequestsAreAsTheUrlWasGiven) {
  for (const char* text : {"http://r", "http://r/a", "http://r/a%20b", "http://r/a?sig=x%2Fy&t=1",
                           "http://r/d+e,f", "http://r/(a)", "http://r/d%2Be", "http://r?x=1"}) {
    EXPECT_EQ(asked(text), text);
  }
  EXPECT_EQ(asked("http://r/a b"), "http://r/a%20b");
  EXPECT_EQ(asked("http://r/a\"b\x7f"
                  "c~"),
            "http://r/a%22b%7Fc~");
  EXPECT_EQ(asked("http://r/g/#x"), "http://r/g");
}

TEST(Location, RequestsForWhatIsBelowAreEncoded) {
  const std::filesystem::path below = absolute_location("http://q/d?sig=secret") / "a b+%é" / "c";
  EXPECT_EQ(web_url(below), "http://q/d/a%20b%2B%25%C3%A9/c");
  EXPECT_EQ(web_url("http://q"), "http://q");
  EXPECT_EQ(web_url("http://q/a?b"), "http://q/a%3Fb") << "a name with a question mark in it";
}

TEST(Location, UrlsWithOtherQueriesAreOtherLocations) {
  const std::vector<std::string> urls{"http://two/get.ckpt?file=a", "http://two/get.ckpt?file=b",
                                      "http://two/get.ckpt", "http://two/%67et.ckpt"};
  std::vector<std::filesystem::path> locations;
  for (const std::string& url : urls) locations.push_back(absolute_location(url));
  EXPECT_EQ(locations.front(), "http://two/get.ckpt");
  for (std::size_t i = 0; i < urls.size(); ++i) {
    EXPECT_EQ(web_url(locations[i]), urls[i]);
    EXPECT_EQ(absolute_location(urls[i]), locations[i]) << "each time";
    EXPECT_EQ(shown_location(locations[i].string()), "http://two/get.ckpt");
    EXPECT_EQ(locations[i].extension(), ".ckpt");
    EXPECT_EQ(web_url(locations[i].parent_path() / "a b.json"), "http://two/a%20b.json");
  }
}

TEST(Location, UserNamesAreRefusedAndNotShown) {
  for (const char* text : {"http://me:secret@h/a?x=secret", "https://secret@h"}) {
    expect_error(ErrorKind::kUsage, {"user name", "://h", ".netrc"}, [&] { location(text); });
    EXPECT_EQ(shown_location(text).find("secret"), std::string::npos);
  }
  EXPECT_EQ(shown_location("HTTP://me:pw@h/a%20b?x=secret#f"), "http://h/a%20b");
  EXPECT_EQ(location("s3://bucket/a@b"), "s3://bucket/a@b");
  EXPECT_EQ(location("http://h/a@b"), "http://h/a@b");
}

TEST(Location, RefusesUrlsThatNobodyReads) {
  expect_error(ErrorKind::kUnsupported, {"'ftp://'", "http", "s3"}, [] { location("ftp://h/x"); });
  expect_error(ErrorKind::kUnsupported, {"'hdfs://'"}, [] { absolute_source("hdfs://h/x.json"); });
  expect_error(ErrorKind::kUnsupported, {"'hf://'", "hf download"}, [] { location("hf://a/b"); });
  for (const char* const text : {"gs://b", "oss://b", "r2://b"}) {
    expect_error(ErrorKind::kUnsupported, {"not supported", "--s3-endpoint"},
                 [&] { location(text); });
  }
  for (const char* const text : {"hdfs://h/x", "hf://a/b"}) {
    try {
      location(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("--s3-endpoint"), std::string::npos) << text;
    }
  }
  expect_error(ErrorKind::kUsage, {"no host"}, [] { location("http:///x"); });
  expect_error(ErrorKind::kUsage, {"no host"}, [] { location("https://?x"); });
}

TEST(Location, ListsAreDirectories) {
  EXPECT_EQ(absolute_source("/d/list.json"), "urls:///d/list.json");
  EXPECT_EQ(absolute_source("http://h/list.json?sig=x"), "urls://http://h/list.json");
  EXPECT_EQ(absolute_source("s3://b/list.json"), "urls://s3://b/list.json");
  EXPECT_EQ(absolute_source("urls:///d/list.json"), "urls:///d/list.json");
  for (const char* text : {"/d/list.JSON", "/d/json", "/d/.json", "/d/list.json.d", "http://h/j"}) {
    EXPECT_EQ(absolute_source(text), text);
  }
}

}  // namespace
}  // namespace reshardfs
