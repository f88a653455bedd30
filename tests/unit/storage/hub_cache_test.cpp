// SPDX-License-Identifier: Apache-2.0
#include "storage/local/hub_cache.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

TEST(HubPlace, OfSnapshots) {
  const auto place = hub_place("/x/models--org--a-model/snapshots/0123/");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->model, "org/a-model");
  EXPECT_EQ(place->snapshot, "0123");
  EXPECT_EQ(hub_place("models--gpt2/snapshots/f/model.safetensors")->model, "gpt2");
}

TEST(HubPlace, OfNothingElse) {
  for (const char* path :
       {"/x/models--org--m", "/x/models--org--m/snapshots", "/x/models--org--m/snapshots/",
        "/x/m/snapshots/0123", "/x/models--org--m/blobs/0123", "models--/snapshots/0"}) {
    EXPECT_FALSE(hub_place(path)) << path;
  }
}

TEST(HubPlace, IsWhereTheHubHasItsCache) {
  // As a child would find it, whose environment this test may change.
  const auto directory = [](const char* hub_cache, const char* home_of_hub) {
    ::setenv("HOME", "/home/user", 1);
    hub_cache == nullptr ? ::unsetenv("HF_HUB_CACHE") : ::setenv("HF_HUB_CACHE", hub_cache, 1);
    home_of_hub == nullptr ? ::unsetenv("HF_HOME") : ::setenv("HF_HOME", home_of_hub, 1);
    return hub_directory("org/a-m");
  };
  EXPECT_EQ(directory("/c", "/h"), "/c/models--org--a-m");
  EXPECT_EQ(directory(nullptr, "/h"), "/h/hub/models--org--a-m");
  EXPECT_EQ(directory("", ""), "/home/user/.cache/huggingface/hub/models--org--a-m");
  EXPECT_EQ(directory(nullptr, nullptr), "/home/user/.cache/huggingface/hub/models--org--a-m");
}

class Hub : public testing::Test {
 protected:
  void add_snapshot(const std::string& name) const {
    dir_.write("models--org--m/blobs/" + name, "bytes");
    dir_.make_directory("models--org--m/snapshots/" + name);
    fs::create_symlink("../../blobs/" + name, snapshot(name) / "model.safetensors");
  }
  fs::path root() const { return dir_.path() / "models--org--m"; }
  fs::path snapshot(const std::string& name) const { return root() / "snapshots" / name; }
  void name_main(const std::string& text) const { dir_.write("models--org--m/refs/main", text); }

  test::TempDir dir_;
};

TEST_F(Hub, TheOnlySnapshotIsTaken) {
  add_snapshot("a1");
  EXPECT_EQ(settled_source(root()), snapshot("a1"));
  EXPECT_EQ(settled_source(root() / "snapshots"), snapshot("a1"));
  EXPECT_EQ(settled_source(snapshot("a1")), snapshot("a1"));
  EXPECT_EQ(settled_source(snapshot("a1") / "model.safetensors"),
            snapshot("a1") / "model.safetensors");
  name_main("gone");
  EXPECT_EQ(settled_source(root()), snapshot("a1"));
  EXPECT_NE(snapshot_words(snapshot("a1")).find("names gone, which is not there"),
            std::string::npos);
}

TEST_F(Hub, RefsMainDecides) {
  add_snapshot("a1");
  add_snapshot("b2");
  expect_error(ErrorKind::kBadInput, {"2 snapshots", "no refs/main", "a1", "b2", "name one"},
               [&] { settled_source(root()); });
  expect_error(ErrorKind::kBadInput, {"such as " + snapshot("a1").string()},
               [&] { settled_source(root()); });
  EXPECT_EQ(snapshot_or(root()), root());
  name_main("c3\n");
  expect_error(ErrorKind::kBadInput, {"2 snapshots", "refs/main names none of them"},
               [&] { settled_source(root() / "snapshots"); });
  name_main("a1 \n");
  EXPECT_EQ(settled_source(root()), snapshot("a1"));
  name_main("b2\n");
  EXPECT_EQ(settled_source(root()), snapshot("b2"));
  EXPECT_EQ(snapshot_words(snapshot("b2")),
            "snapshot b2 of org/m in a cache of Hugging Face's hub, which refs/main names");
  EXPECT_EQ(snapshot_words(snapshot("a1")),
            "snapshot a1 of org/m in a cache of Hugging Face's hub; refs/main names b2");
}

TEST_F(Hub, ALinkThatLeadsNowhereIsRefused) {
  add_snapshot("a1");
  dir_.make_directory("models--org--m/snapshots/a1/part");
  fs::create_symlink("../../../blobs/gone", snapshot("a1") / "part/model-2.safetensors");
  for (const fs::path& path : {root(), snapshot("a1")}) {
    expect_error(ErrorKind::kBadInput,
                 {"part/model-2.safetensors", "blobs/gone", "does not exist", "hf download org/m"},
                 [&] { settled_source(path); });
  }
}

TEST_F(Hub, DirectoriesBehindLinksAreNotItsOwn) {
  add_snapshot("a1");
  dir_.make_directory("elsewhere");
  fs::create_symlink("gone", dir_.path() / "elsewhere/model.safetensors");
  fs::create_directory_symlink(dir_.path() / "elsewhere", snapshot("a1") / "more");
  EXPECT_EQ(settled_source(root()), snapshot("a1"));
}

TEST_F(Hub, WhatLiesInASnapshotIsNone) {
  EXPECT_EQ(snapshot_words(snapshot("a1") / "snapshots/b2"), "");
  EXPECT_EQ(snapshot_words(snapshot("a1") / "part/a1"), "");
}

TEST_F(Hub, ADownloadThatHasNotEndedIsRefused) {
  add_snapshot("a1");
  dir_.write("models--org--m/blobs/c0ffee.incomplete", "by");
  expect_error(ErrorKind::kBadInput,
               {"blobs/c0ffee.incomplete", "not ended", "hf download org/m", "snapshots/a1"},
               [&] { settled_source(root()); });
  EXPECT_EQ(settled_source(snapshot("a1")), snapshot("a1"));
  EXPECT_TRUE(unfinished_download(snapshot("a1")));
  fs::remove(root() / "blobs/c0ffee.incomplete");
  EXPECT_FALSE(unfinished_download(snapshot("a1")));
}

TEST_F(Hub, OtherDirectoriesStayAsTheyAre) {
  dir_.make_directory("models--org--empty/snapshots");
  dir_.make_directory("snapshots/a1");
  for (const char* name : {"models--org--empty", "snapshots", "snapshots/a1", ".", "gone"}) {
    EXPECT_EQ(settled_source(dir_.path() / name), dir_.path() / name);
  }
}

}  // namespace
}  // namespace reshardfs
