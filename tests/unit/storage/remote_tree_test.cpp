// SPDX-License-Identifier: Apache-2.0
#include "storage/remote/remote_tree.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "storage/location.h"
#include "support/errors.h"
#include "support/listings.h"
#include "support/s3_stand_in.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::s3_key;
using test::s3_list;
using test::S3StandIn;
using test::WebAnswer;
using test::WebRequest;
using test::WebStandIn;
using Names = std::vector<std::string>;

Names names(const RemoteTree& tree, const std::filesystem::path& path) {
  return test::names_of(tree.list(path));
}

/// Of a store that lists all at once.
class RemoteTreeTest : public testing::Test {
 protected:
  static S3StandIn& store() { return S3StandIn::process(); }
  static std::size_t requests() { return store().server().requests().size(); }
  static Names names_in(const WebAnswer& answer) {
    store().server().answer_with([answer](const WebRequest&) { return answer; });
    return names(RemoteTree("s3://bucket/d"), "s3://bucket/d");
  }
};

TEST_F(RemoteTreeTest, AsksForAllAtOnce) {
  store().hold({{"d/a/1", {"one"}}, {"d/a/2/3", {"three"}}, {"d/b", {"b"}}, {"dx", {"x"}}});
  const RemoteTree tree("s3://bucket/d//");
  EXPECT_EQ(requests(), 0U);
  EXPECT_EQ(names(tree, "s3://bucket/d"), (Names{"a/", "b"}));
  EXPECT_EQ(names(tree, "s3://bucket/d/a"), (Names{"1", "2/"}));
  EXPECT_EQ(names(tree, "s3://bucket/d/a/2/"), Names{"3"});
  EXPECT_EQ(tree.kind("s3://bucket/d"), PathKind::kDirectory);
  EXPECT_EQ(tree.kind("s3://bucket/d/a/"), PathKind::kDirectory);
  EXPECT_EQ(tree.kind("s3://bucket/d/a/2/3"), PathKind::kOther);
  EXPECT_EQ(tree.kind("s3://bucket/d/b"), PathKind::kOther);
  EXPECT_EQ(tree.kind("s3://bucket/d/none"), PathKind::kMissing);
  expect_error(ErrorKind::kMissing, {"no such directory", "d/none"},
               [&] { names(tree, "s3://bucket/d/none"); });
  EXPECT_EQ(tree.known_mtime_ns("s3://bucket/d/b"), 1'769'862'896'000'000'000);
  EXPECT_EQ(tree.known_mtime_ns("s3://bucket/d/c"), 0);
  const std::vector<std::filesystem::path> paths{"s3://bucket/d/a"};
  tree.foresee_lists(paths);
  EXPECT_EQ(requests(), 1U);
  for (const char* path : {"s3://bucket/d/b", "s3://bucket/d/a/1"}) tree.open_source(path);
  EXPECT_EQ(requests(), 1U);
  expect_error(ErrorKind::kMissing, {"d/none"}, [&] { tree.open_source("s3://bucket/d/none"); });
}

TEST_F(RemoteTreeTest, AsksForTheKindOfWhatIsNotBelowItsRoot) {
  store().hold({{"d/a", {"a"}}, {"dx", {"x"}}, {"dy/1", {"y"}}, {"e", {"e"}}});
  const RemoteTree tree("s3://bucket/d");
  EXPECT_EQ(tree.kind("s3://bucket/dx"), PathKind::kOther);
  EXPECT_EQ(tree.kind("s3://bucket/e"), PathKind::kOther);
  EXPECT_EQ(names(tree, "s3://bucket/dy"), Names{"1"});
}

TEST_F(RemoteTreeTest, ItsRootMayBeAnObjectOrNothing) {
  store().hold({{"d/file", {"a"}}});
  EXPECT_EQ(RemoteTree("s3://bucket/d/file").kind("s3://bucket/d/file"), PathKind::kOther);
  const RemoteTree missing("s3://bucket/none");
  EXPECT_EQ(missing.kind("s3://bucket/none"), PathKind::kMissing);
  store().server().forget_requests();
  expect_error(ErrorKind::kMissing, {"no such directory"},
               [&] { names(missing, "s3://bucket/none"); });
  EXPECT_EQ(requests(), 0U);
}

TEST_F(RemoteTreeTest, ARootWithoutABucketKeepsItsScheme) {
  expect_error(ErrorKind::kUsage, {"names no bucket"}, [] { RemoteTree("s3://").list("s3://"); });
}

TEST_F(RemoteTreeTest, APathStandsForTheDirectoryOfItsName) {
  EXPECT_EQ(names_in(s3_list(s3_key("d/x") + s3_key("d/x/1") + s3_key("d/y/1") + s3_key("d/y"))),
            (Names{"x/", "y/"}));
}

TEST_F(RemoteTreeTest, NamesThatNoPathCanHaveAreLeftOut) {
  const std::string nothing(1, '\0');
  EXPECT_EQ(
      names_in(s3_list(s3_key("d//1") + s3_key("d/./1") + s3_key("d/../1") + s3_key("d/.") +
                       s3_key("d/..") + s3_key("d/") + s3_key("d/a" + nothing) +
                       s3_key("d/b" + nothing + "/1") + s3_key("d/good") + s3_key("d/marked/"))),
      (Names{"good", "marked/"}));
}

TEST_F(RemoteTreeTest, OfTooManyObjectsEachDirectoryIsListedOnce) {
  store().hold({{"d/a/1", {"one"}}, {"d/b", {"b"}}});
  const RemoteTree tree("s3://bucket/d", /*most_at_once=*/1);
  EXPECT_EQ(tree.kind("s3://bucket/d/b"), PathKind::kOther);
  EXPECT_EQ(names(tree, "s3://bucket/d"), (Names{"a/", "b"}));
  EXPECT_EQ(names(tree, "s3://bucket/d/a"), Names{"1"});
  store().server().forget_requests();
  EXPECT_EQ(names(tree, "s3://bucket/d/"), (Names{"a/", "b"}));
  EXPECT_EQ(names(tree, "s3://bucket/d/a"), Names{"1"});
  EXPECT_EQ(tree.kind("s3://bucket/d/a"), PathKind::kDirectory);
  EXPECT_EQ(requests(), 0U);
  EXPECT_EQ(tree.known_mtime_ns("s3://bucket/d/b"), 0);
}

TEST_F(RemoteTreeTest, ListsThatAreForeseenAreAskedForOnce) {
  store().hold({{"d/a/1", {"one"}}, {"d/b", {"b"}}});
  const RemoteTree tree("s3://bucket/d", /*most_at_once=*/1);
  const std::vector<std::filesystem::path> paths{"s3://bucket/d/none", "s3://bucket/d/a"};
  tree.foresee_lists(paths);
  store().server().forget_requests();
  EXPECT_EQ(names(tree, "s3://bucket/d/a"), Names{"1"});
  EXPECT_EQ(requests(), 0U);
  expect_error(ErrorKind::kMissing, {"d/none"}, [&] { names(tree, "s3://bucket/d/none"); });
}

TEST_F(RemoteTreeTest, AListThatIsDeniedIsNotAskedForOfEachDirectory) {
  store().server().answer_with([](const WebRequest&) { return WebAnswer{403}; });
  const RemoteTree tree("s3://bucket/d");
  const std::vector<std::filesystem::path> paths{"s3://bucket/d/a", "s3://bucket/d/b"};
  expect_error(ErrorKind::kIo, {"access is denied"}, [&] { tree.foresee_lists(paths); });
  EXPECT_EQ(requests(), 1U);
}

}  // namespace
}  // namespace reshardfs
