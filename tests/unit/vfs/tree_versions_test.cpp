// SPDX-License-Identifier: Apache-2.0
#include "vfs/tree_versions.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unit/vfs/sized_file.h"

namespace reshardfs {
namespace {

using testing_vfs::file_of;

TreeVersions::Version version(std::uint64_t number, const std::vector<std::string>& files,
                              std::uint64_t size = 1) {
  TreeBuilder builder(number);
  builder.add_directory("d");
  for (const std::string& file : files) builder.add_file(file, file_of(size));
  return {number, std::make_shared<const Tree>(std::move(builder).build())};
}

InodeNumber number_of(const Tree& tree, InodeNumber directory, const char* name) {
  const Node* const node = tree.lookup(directory, name);
  return node == nullptr ? 0 : node->inode;
}

TEST(VersionNumbers, FilesHaveOthersAndDirectoriesTheSame) {
  const auto first = version(0, {"d/a", "b"});
  const auto second = version(1, {"d/a", "b"});
  const InodeNumber d = number_of(*first.tree, kRootInode, "d");
  EXPECT_EQ(number_of(*second.tree, kRootInode, "d"), d);
  EXPECT_NE(number_of(*first.tree, d, "a"), number_of(*second.tree, d, "a"));
  EXPECT_NE(number_of(*first.tree, kRootInode, "b"), number_of(*second.tree, kRootInode, "b"));
  EXPECT_EQ(number_of(*first.tree, kRootInode, "b"), inode_number("b", 0));
  EXPECT_EQ(version_inode_number(0, "b", 2), inode_number("b", 2));
  EXPECT_NE(version_inode_number(1, "b", 0), version_inode_number(0, "b", 1));
}

TEST(VersionNumbers, AreTheSameForWhatHasNoBytes) {
  EXPECT_EQ(number_of(*version(0, {"a"}, 0).tree, kRootInode, "a"),
            number_of(*version(4, {"a"}, 0).tree, kRootInode, "a"));
}

TEST(TreeVersions, ShowTheLastOneAndFindNodesOfAll) {
  const auto old = version(0, {"d/a", "gone"}, 5);
  const auto now = version(2, {"d/a", "d/new"}, 7);
  TreeVersions versions({old, now});
  versions.recall("", [](std::uint64_t) { return 1; });
  const auto tree = versions.current();
  const InodeNumber d = number_of(*tree, kRootInode, "d");
  EXPECT_EQ(number_of(*tree, d, "a"), number_of(*now.tree, d, "a"));
  EXPECT_NE(number_of(*tree, d, "new"), 0U);
  EXPECT_EQ(number_of(*tree, kRootInode, "gone"), 0U);
  EXPECT_EQ(tree->total_bytes(), 14U);
  EXPECT_EQ(tree->node_count(), now.tree->node_count());
  const InodeNumber gone = number_of(*old.tree, kRootInode, "gone");
  ASSERT_NE(tree->find(gone), nullptr);
  EXPECT_EQ(tree->find(gone)->size, 5U);
  EXPECT_EQ(tree->path(gone), "gone");
  EXPECT_FALSE(versions.file_opened(gone));
  EXPECT_TRUE(versions.file_opened(number_of(*tree, d, "a")));
  EXPECT_EQ(versions.of_listing(0), old.tree);
  EXPECT_EQ(versions.of_listing(1), nullptr);
  EXPECT_EQ(versions.of_listing(2), tree);
  std::size_t shown = 0;
  tree->for_each([&](const Node&) { ++shown; });
  EXPECT_EQ(shown, now.tree->node_count());
}

TEST(TreeVersions, DropAFormerOneWithItsLastOpening) {
  auto first = version(0, {"a"});
  auto second = version(1, {"a"});
  auto unused = version(2, {"a"});
  const std::weak_ptr<const Tree> held_first = first.tree;
  const std::weak_ptr<const Tree> held_second = second.tree;
  const std::weak_ptr<const Tree> held_unused = unused.tree;
  const InodeNumber of_first = number_of(*first.tree, kRootInode, "a");
  const InodeNumber of_second = number_of(*second.tree, kRootInode, "a");
  TreeVersions versions(
      {std::move(first), std::move(second), std::move(unused), version(3, {"a"})});
  std::map<std::uint64_t, std::uint64_t> openings{{0, 2}, {1, 1}, {3, 5}};
  versions.recall("", [&](std::uint64_t number) { return openings[number]; });
  EXPECT_TRUE(held_unused.expired());
  versions.closed(1);
  EXPECT_TRUE(held_second.expired());
  EXPECT_EQ(versions.current()->find(of_second), nullptr);
  versions.closed(1);  // of nothing
  versions.closed(0);
  EXPECT_FALSE(held_first.expired());
  // The shown one has as many as it likes.
  for (int i = 0; i < 9; ++i) {
    versions.closed(3);
  }
  EXPECT_NE(versions.current()->find(of_first), nullptr);
  versions.closed(0);
  EXPECT_TRUE(held_first.expired());
  EXPECT_EQ(versions.of_listing(0), nullptr);
  EXPECT_EQ(number_of(*versions.current(), kRootInode, "a"), version_inode_number(3, "a", 0));
}

TEST(TreeVersions, WithoutFormerOnesCountNoReferences) {
  const auto only = version(0, {"a"});
  const TreeVersions versions({only});
  const long before = only.tree.use_count();
  const auto tree = versions.current();
  EXPECT_EQ(tree.get(), only.tree.get());
  EXPECT_EQ(only.tree.use_count(), before);
}

}  // namespace
}  // namespace reshardfs
