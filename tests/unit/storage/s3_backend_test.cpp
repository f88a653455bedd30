// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "storage/backend.h"
#include "support/errors.h"
#include "support/listings.h"
#include "support/s3_stand_in.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::query_of;
using test::s3_key;
using test::s3_list;
using test::s3_prefix;
using test::S3StandIn;
using test::WebAnswer;
using test::WebRequest;
using Names = std::vector<std::string>;

class S3BackendTest : public testing::Test {
 protected:
  static Names names(const std::filesystem::path& location) {
    return test::names_of(backend().list(location));
  }
  /// Of a store that answers like this to all requests.
  static Names names_in(const WebAnswer& answer) {
    store().server().answer_with([answer](const WebRequest&) { return answer; });
    return names("s3://bucket/d");
  }
  static std::string text_of(const ByteSourcePtr& source) {
    std::string text(source->size(), '.');
    source->read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
  }
  static const Backend& backend() { return s3_backend(); }
  static S3StandIn& store() { return S3StandIn::process(); }
  static std::vector<WebRequest> requests() { return store().server().requests(); }
};

TEST_F(S3BackendTest, ListsWhatKeysHaveInCommon) {
  store().hold({{"a", {}}, {"d/x/1", {}}, {"d/x/2", {}}, {"d/f", {}}, {"dd/f", {}}, {"d/", {}}});
  EXPECT_EQ(names("s3://bucket"), (Names{"a", "d/", "dd/"}));
  ASSERT_EQ(requests().size(), 1U);
  EXPECT_EQ(query_of(requests()[0], "prefix"), "");
  EXPECT_EQ(query_of(requests()[0], "max-keys"), "1000");
  for (const char* location : {"s3://bucket/d", "s3://bucket/d/", "s3://bucket/d//"}) {
    EXPECT_EQ(names(location), (Names{"f", "x/"})) << location;
  }
  EXPECT_EQ(query_of(requests()[1], "prefix"), "d/");
  EXPECT_EQ(names("s3://bucket/d/x"), (Names{"1", "2"}));
}

TEST_F(S3BackendTest, ListsAreReadPageByPage) {
  store().hold({{"d/a", {}}, {"d/b/1", {}}, {"d/c", {}}, {"d/d", {}}, {"d/e", {}}}, 2);
  EXPECT_EQ(names("s3://bucket/d"), (Names{"a", "b/", "c", "d", "e"}));
  EXPECT_EQ(requests().size(), 3U);
}

TEST_F(S3BackendTest, APageThatLeadsToAnEarlierOneIsAnError) {
  store().server().answer_with([](const WebRequest& request) {
    return s3_list(s3_key("d/x"), query_of(request, "continuation-token") == "1" ? "2" : "1");
  });
  expect_error(ErrorKind::kBadInput, {"a page that leads to itself", "s3://bucket/d"},
               [] { names("s3://bucket/d"); });
}

TEST_F(S3BackendTest, ADirectoryIsThereIfAKeyIsInIt) {
  store().hold({{"d/", {}}, {"e", {}}});
  EXPECT_EQ(names("s3://bucket/d"), Names{});
  expect_error(ErrorKind::kMissing, {"no such directory", "s3://bucket/e"},
               [] { names("s3://bucket/e"); });
  store().hold({});
  EXPECT_EQ(names("s3://bucket"), Names{});
}

TEST_F(S3BackendTest, APathStandsForTheDirectoryOfItsName) {
  store().hold({{"d/x", {}}, {"d/x/1", {}}, {"d/y", {}}, {"d/x-1", {}}});
  EXPECT_EQ(names("s3://bucket/d"), (Names{"x/", "x-1", "y"}));
  EXPECT_EQ(names_in(s3_list(s3_key("d/x") + s3_key("d/x") + s3_prefix("d/x/"))), Names{"x/"});
}

TEST_F(S3BackendTest, NamesThatNoPathCanHaveAreLeftOut) {
  EXPECT_EQ(
      names_in(s3_list(s3_prefix("d/./") + s3_prefix("d/../") + s3_prefix("d//") + s3_key("d/.") +
                       s3_key("d/..") + s3_key("d/") + s3_key("d/x/y") + s3_key("d/z/") +
                       s3_key(std::string("d/n\0n", 5)) + s3_key("other") + s3_key("d/good"))),
      Names{"good"});
  // Not all stores end a prefix with the delimiter.
  EXPECT_EQ(names_in(s3_list(s3_prefix("d/sub"))), Names{"sub/"});
}

TEST_F(S3BackendTest, RefusalsOfListsSayWhatTheyMean) {
  const std::string code = "<Error><Code>NoSuchBucket</Code></Error>";
  expect_error(ErrorKind::kMissing, {"no such bucket", "s3://bucket/d"}, [&] {
    names_in({404, {}, code});
  });
}

TEST_F(S3BackendTest, APageOfMoreThan16MiBIsRefused) {
  expect_error(ErrorKind::kBadInput, {"more than 16777216 bytes"}, [] {
    names_in({200, {}, std::string((16U << 20U) + 1, ' ')});
  });
}

TEST_F(S3BackendTest, TellsKinds) {
  store().hold({{"d/x/1", {}}, {"m/", {}}, {"f", {}}, {"f/g", {}}, {"d/file", {}}});
  EXPECT_EQ(backend().kind("s3://bucket"), PathKind::kDirectory);
  EXPECT_EQ(requests().size(), 0U);
  EXPECT_EQ(backend().kind("s3://bucket/d"), PathKind::kDirectory);
  ASSERT_EQ(requests().size(), 1U);
  EXPECT_EQ(query_of(requests()[0], "max-keys"), "1");
  EXPECT_EQ(backend().kind("s3://bucket/d/x/"), PathKind::kDirectory);
  EXPECT_EQ(backend().kind("s3://bucket/m"), PathKind::kDirectory);
  EXPECT_EQ(backend().kind("s3://bucket/f"), PathKind::kDirectory);
  EXPECT_EQ(backend().kind("s3://bucket/d/file"), PathKind::kOther);
  EXPECT_EQ(backend().kind("s3://bucket/d/none"), PathKind::kMissing);
}

TEST_F(S3BackendTest, AKindThatCannotBeToldIsAnError) {
  const auto answer = [](int status) {
    store().server().answer_with([status](const WebRequest& request) {
      return request.method == "HEAD" ? WebAnswer{status} : s3_list("");
    });
  };
  answer(403);
  expect_error(ErrorKind::kIo, {"access is denied"}, [] { backend().kind("s3://bucket/x"); });
  answer(507);
  expect_error(ErrorKind::kIo, {"no room left"}, [] { backend().kind("s3://bucket/x"); });
}

TEST_F(S3BackendTest, ListsAllBelowADirectory) {
  store().hold({{"d/a", {"xy", "e1"}}, {"d/b/1", {"z", "e2"}}, {"dd", {}}, {"d", {}}});
  const auto objects = backend().list_below("s3://bucket/d", 2);
  ASSERT_TRUE(objects);
  ASSERT_EQ(objects->size(), 2U);
  EXPECT_EQ((*objects)[0].path, "a");
  EXPECT_EQ((*objects)[0].size, 2U);
  EXPECT_EQ((*objects)[0].etag, "e1");
  EXPECT_EQ((*objects)[0].modified, "2026-01-31T12:34:56.000Z");
  EXPECT_EQ((*objects)[1].path, "b/1");
  ASSERT_EQ(backend().list_below("s3://bucket", 9)->size(), 4U);
  EXPECT_EQ((*backend().list_below("s3://bucket", 9))[0].path, "d");
  EXPECT_EQ(backend().list_below("s3://bucket/none", 9)->size(), 0U);
}

TEST_F(S3BackendTest, ListsNoMorePagesOnceThereAreTooMany) {
  store().hold({{"a", {}}, {"b", {}}, {"c", {}}, {"d", {}}, {"e", {}}, {"f", {}}}, 2);
  EXPECT_FALSE(backend().list_below("s3://bucket", 3));
  EXPECT_EQ(requests().size(), 2U);
}

TEST_F(S3BackendTest, OpensObjects) {
  store().hold({{"d/f", {"content"}}});
  EXPECT_EQ(text_of(backend().open("s3://bucket/d/f")), "content");
  expect_error(ErrorKind::kMissing, {"s3://bucket/d/g"}, [] { backend().open("s3://bucket/d/g"); });
}

TEST_F(S3BackendTest, WhatAListHasAStrongETagOfIsOpenedWithoutARequest) {
  store().hold({{"d/f", {"content"}}});
  const auto opened = [](const std::string& etag, std::size_t requests_then) {
    store().server().forget_requests();
    const ByteSourcePtr source =
        backend().open_listed("s3://bucket/d/f", {"f", 7, etag, "2026-01-31T12:34:56.000Z"});
    EXPECT_EQ(requests().size(), requests_then) << etag;
    EXPECT_EQ(source->size(), 7U);
    EXPECT_EQ(text_of(source), "content");
    return source;
  };
  const ByteSourcePtr listed = opened("v1", 0);
  EXPECT_EQ(listed->mtime_ns(), 1'769'862'896'000'000'000);
  EXPECT_NE(listed->identity(), "");
  opened("", 1);
  opened("W/\"v1\"", 1);
}

}  // namespace
}  // namespace reshardfs
