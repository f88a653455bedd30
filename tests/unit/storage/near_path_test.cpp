// SPDX-License-Identifier: Apache-2.0
#include "storage/near_path.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "support/web_stand_in.h"

namespace reshardfs {
namespace {

using test::TempDir;
using test::WebAnswer;
using test::WebRequest;
using test::WebStandIn;

std::string did_you_mean_quoted(const std::string& path) {
  return "did you mean '" + path + "'?";
}

TEST(NearPath, IsTheOneOfANameLikeIt) {
  const TempDir dir;
  const auto right = dir.write("checkpoint", "");
  dir.write("other", "");
  EXPECT_EQ(did_you_mean_path(dir.path() / "chekpoint"), did_you_mean_quoted(right.string()));
  EXPECT_EQ(did_you_mean_path(dir.path() / "chekpoint/"), did_you_mean_quoted(right.string()));
  EXPECT_EQ(did_you_mean_path(dir.path() / "nothing like it"), "");
}

TEST(NearPath, LeadsToTheRest) {
  const TempDir dir;
  const auto right = dir.write("checkpoint/rank_0/weights", "");
  const auto wrong = dir.path() / "chekpoint";
  EXPECT_EQ(did_you_mean_path(wrong / "rank_0/weights"), did_you_mean_quoted(right.string()));
  EXPECT_EQ(did_you_mean_path(wrong / "rank_0"), did_you_mean_quoted(right.parent_path().string()));
  EXPECT_EQ(did_you_mean_path(wrong / "rank_1/weights"), "");
}

TEST(NearPath, MayBeRelative) {
  const TempDir dir;
  dir.write("checkpoint", "");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  EXPECT_EQ(did_you_mean_path("chekpoint"), did_you_mean_quoted("checkpoint"));
  std::filesystem::current_path(before);
}

TEST(NearPath, MayBeAURLOfWhichASlashIsMissing) {
  for (const char* before : {"", "/", "/home/me/", "a/b/"}) {
    EXPECT_EQ(did_you_mean_path(std::string(before) + "s3:/b"), did_you_mean_quoted("s3://b"));
    EXPECT_EQ(did_you_mean_path(std::string(before) + "http:/host/dir/file"),
              did_you_mean_quoted("http://host/dir/file"));
  }
  EXPECT_EQ(did_you_mean_path("/none/urls:/b"), did_you_mean_quoted("urls://b"));
  for (const char* path : {"/none/s3:", "/none/s3:/", "/none/s4:/b", "/none/s3/b"}) {
    EXPECT_EQ(did_you_mean_path(path), "") << path;
  }
}

TEST(NearPath, OfAURLIsInItsServersList) {
  WebStandIn server([](const WebRequest& request) {
    return request.target == "/d/" ? WebAnswer{200, {}, "<a href='checkpoint/'>"} : WebAnswer{404};
  });
  EXPECT_EQ(did_you_mean_path(server.origin() + "/d/chekpoint"),
            did_you_mean_quoted(server.origin() + "/d/checkpoint"));
  // Each directory above it would be a request.
  EXPECT_EQ(did_you_mean_path(server.origin() + "/e/chekpoint"), "");
}

}  // namespace
}  // namespace reshardfs
