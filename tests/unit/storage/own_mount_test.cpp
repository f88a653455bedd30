// SPDX-License-Identifier: Apache-2.0
#include "storage/local/own_mount.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "storage/local/directory.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

TEST(OwnMount, IsFoundThroughLinksAndNamesAlone) {
  const TempDir dir;
  const fs::path root = fs::canonical(dir.path());
  const fs::path place = dir.make_directory("a/mount");
  const fs::path mount = fs::canonical(place);
  dir.write("a/mount/file", "x");
  dir.write("a/other", "x");
  fs::create_symlink(mount / "file", root / "link");
  fs::create_symlink("link", root / "chain");
  fs::create_directory_symlink("a", root / "b");
  fs::create_symlink("b/mount", root / "relative");
  fs::create_symlink("circle", root / "circle");
  // As many as the kernel follows, and one more.
  for (int i = 1; i <= 41; ++i) {
    fs::create_symlink(i == 1 ? mount : root / "links" / std::to_string(i - 1),
                       dir.make_directory("links") / std::to_string(i));
  }
  EXPECT_FALSE(leads_into_own_mount(mount));
  test::in_child([&] {
    set_own_mount(mount);
    for (const char* path :
         {"a/mount", "a/mount/file", "a/mount/none", "link", "chain", "relative", "relative/none",
          "b/mount/x", "b/../a/./mount", "none/../a/mount", "links/40"}) {
      EXPECT_TRUE(leads_into_own_mount(root / path)) << path;
      EXPECT_EQ(path_kind(root / path), PathKind::kMissing) << path;
    }
    for (const char* path : {"", "a", "b", "a/other", "a/mounted", "circle"}) {
      EXPECT_FALSE(leads_into_own_mount(root / path)) << path;
    }
    EXPECT_FALSE(leads_into_own_mount(root / "links/41"));
    // A path that only reads like the mount point's, from where this process is.
    fs::current_path(root / "a");
    EXPECT_TRUE(leads_into_own_mount("mount"));
    EXPECT_EQ(path_kind(""), PathKind::kMissing);
    EXPECT_FALSE(leads_into_own_mount(mount.relative_path()));
    EXPECT_EQ(path_kind(root / "b/other"), PathKind::kOther);
    std::string seen;
    for (const DirectoryEntry& entry : list_directory(root)) {
      seen += entry.name + (entry.is_directory ? "/" : "") + (entry.is_regular ? "." : "") +
              (entry.is_link ? "@ " : " ");
    }
    EXPECT_EQ(seen, "a/ b/@ chain@ circle@ link@ links/ relative@ ");
  });
}

}  // namespace
}  // namespace reshardfs
