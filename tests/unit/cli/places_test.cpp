// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/places.h"

#include <gtest/gtest.h>

#include "cli/describe/path_above.h"

namespace reshardfs {
namespace {

TEST(PathAbove, AsTheUserWouldWriteIt) {
  EXPECT_EQ(path_above("a/b"), "a");
  EXPECT_EQ(path_above("a/b/"), "a");
  EXPECT_EQ(path_above("a/../b/c"), "b");
  EXPECT_EQ(path_above("a"), "");
  EXPECT_EQ(path_above("."), "./..");
  EXPECT_EQ(path_above(".."), "../..");
  EXPECT_EQ(path_above("/a"), "/");
}

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

}  // namespace
}  // namespace reshardfs
