// SPDX-License-Identifier: Apache-2.0
#include "vfs/tree.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "unit/vfs/sized_file.h"

namespace reshardfs {
namespace {

using testing_vfs::child_names;
using testing_vfs::file_of;
using testing_vfs::resolve;

ErrorKind kind_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kUsage;
}

TEST(Tree, HasARootThatIsItsOwnParent) {
  const Tree tree = TreeBuilder().build();
  const Node* root = tree.find(kRootInode);
  ASSERT_NE(root, nullptr);
  EXPECT_TRUE(root->is_directory());
  EXPECT_EQ(root->parent, kRootInode);
  EXPECT_EQ(tree.node_count(), 1U);
  EXPECT_EQ(tree.total_bytes(), 0U);
  EXPECT_EQ(tree.path(kRootInode), "");
}

TEST(Tree, MakesMissingParentsAndFindsEveryNode) {
  TreeBuilder builder;
  builder.add_file("rank_0/deep/a.ckpt", file_of(7));
  builder.add_directory("rank_0/empty");
  builder.add_directory("rank_0");
  const Tree tree = std::move(builder).build();

  const Node* file = resolve(tree, {"rank_0", "deep", "a.ckpt"});
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(file->is_directory());
  EXPECT_EQ(file->size, 7U);
  EXPECT_EQ(file->file->size(), 7U);
  EXPECT_EQ(tree.find(file->inode), file);
  EXPECT_EQ(tree.path(file->inode), "rank_0/deep/a.ckpt");
  EXPECT_EQ(file->parent, resolve(tree, {"rank_0", "deep"})->inode);
  ASSERT_NE(resolve(tree, {"rank_0", "empty"}), nullptr);
  EXPECT_EQ(resolve(tree, {"rank_0"})->listed_directories, 2U);
  EXPECT_EQ(tree.node_count(), 5U);
  EXPECT_EQ(tree.total_bytes(), 7U);
}

TEST(Tree, LooksUpExactNamesOnly) {
  TreeBuilder builder;
  // '-' and '.' sort before '/', digits after it: names must be compared without their parents.
  const std::vector<std::string> names = {"a", "a-b", "a.b", "a0", "aa", "b", "\xc3\xa4"};
  for (const std::string name : {"aa", "b", "a0", "\xc3\xa4", "a-b", "a.b"}) {
    builder.add_file("d/" + name, file_of(1));
  }
  builder.add_file("d/a/x", file_of(1));
  const Tree tree = std::move(builder).build();
  const Node* directory = resolve(tree, {"d"});
  EXPECT_EQ(child_names(tree, *directory), names);
  for (const std::string& name : names) {
    const Node* node = tree.lookup(directory->inode, name);
    ASSERT_NE(node, nullptr) << name;
    EXPECT_EQ(node->name, name);
  }
  for (const std::string name : {"", "A", "a-", "a/x", "zz", ".", ".."}) {
    EXPECT_EQ(tree.lookup(directory->inode, name), nullptr) << name;
  }
  EXPECT_EQ(tree.lookup(12345, "a"), nullptr);
  EXPECT_EQ(tree.lookup(resolve(tree, {"d", "b"})->inode, "a"), nullptr);
}

TEST(Tree, HiddenNodesAnswerToTheirNameAndAreNotCounted) {
  TreeBuilder builder;
  builder.add_file(".reshardfs/version", file_of(3));
  builder.add_directory("seen");
  builder.hide(".reshardfs");
  const Tree tree = std::move(builder).build();
  const Node* hidden = resolve(tree, {".reshardfs"});
  ASSERT_NE(hidden, nullptr);
  EXPECT_TRUE(hidden->hidden);
  EXPECT_FALSE(resolve(tree, {".reshardfs", "version"})->hidden);
  EXPECT_FALSE(resolve(tree, {"seen"})->hidden);
  EXPECT_EQ(tree.find(kRootInode)->listed_directories, 1U);
}

TEST(TreeBuilder, RefusesNamesThatTheKernelCannotShow) {
  const std::string long_name(256, 'x');
  const std::string nul("a\0b", 3);
  for (const std::string& path :
       {std::string(""), std::string("."), std::string(".."), std::string("/a"), std::string("a/"),
        std::string("a//b"), std::string("a/../b"), std::string("a/./b"), std::string("a\nb"),
        std::string("a\x1b[31m"), std::string("a\x7f"), long_name, "d/" + long_name, nul}) {
    EXPECT_EQ(kind_of([&] { TreeBuilder().add_directory(path); }), ErrorKind::kBadInput) << path;
    EXPECT_EQ(kind_of([&] { TreeBuilder().add_file(path, file_of(1)); }), ErrorKind::kBadInput)
        << path;
  }
  TreeBuilder builder;
  builder.add_file("d/" + std::string(255, 'x'), file_of(1));
  builder.add_file("...", file_of(1));
  builder.add_file(" ", file_of(1));
}

TEST(TreeBuilder, RefusesOnePathForTwoThings) {
  TreeBuilder builder;
  builder.add_file("a", file_of(1));
  builder.add_directory("d");
  EXPECT_EQ(kind_of([&] { builder.add_file("a", file_of(1)); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { builder.add_directory("a"); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { builder.add_file("d", file_of(1)); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { builder.add_file("a/b", file_of(1)); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { builder.add_file("n", nullptr); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { builder.hide("missing"); }), ErrorKind::kInternal);
  const Tree tree = std::move(builder).build();
  EXPECT_EQ(tree.node_count(), 3U);
}

TEST(TreeBuilder, RefusesFilesLargerThanTheKernelCanAddress) {
  constexpr std::uint64_t kMax =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - 4096;
  TreeBuilder builder;
  builder.add_file("a", file_of(kMax));
  EXPECT_EQ(kind_of([&] { builder.add_file("b", file_of(kMax + 1)); }), ErrorKind::kBadInput);
  builder.add_file("c", file_of(kMax));
  builder.add_file("d", file_of(kMax));
  EXPECT_EQ(std::move(builder).build().total_bytes(), std::numeric_limits<std::uint64_t>::max());
}

TEST(InodeNumber, DependsOnThePathAlone) {
  const std::vector<std::string> paths = {"rank_0/a", "rank_0/b", "rank_1/a", "merged/x", "z"};
  TreeBuilder forward;
  TreeBuilder backward;
  for (const std::string& path : paths) forward.add_file(path, file_of(1));
  backward.add_file("another", file_of(9));
  for (auto it = paths.rbegin(); it != paths.rend(); ++it) backward.add_file(*it, file_of(2));
  const Tree one = std::move(forward).build();
  const Tree other = std::move(backward).build();
  EXPECT_EQ(resolve(one, {"rank_0", "b"})->inode, resolve(other, {"rank_0", "b"})->inode);
  EXPECT_EQ(resolve(one, {"merged", "x"})->inode, resolve(other, {"merged", "x"})->inode);
  EXPECT_EQ(resolve(one, {"z"})->inode, resolve(other, {"z"})->inode);
  // A number that has been handed out must not change with a new version either.
  EXPECT_EQ(inode_number("rank_0/checkpoint_0.ckpt", 0), 4886888256323087610U);
}

TEST(InodeNumber, IsNeverReservedAndFitsASignedInteger) {
  for (int i = 0; i < 100000; ++i) {
    const InodeNumber number = inode_number("rank_" + std::to_string(i), 0);
    EXPECT_GT(number, kRootInode);
    EXPECT_LT(number, InodeNumber{1} << 63);
  }
}

/// Few numbers, so that almost every path collides with another.
InodeNumber crowded(std::string_view path, std::uint64_t attempt) {
  return (path.size() + attempt) % 40;
}

TEST(InodeNumber, CollisionsAreResolvedTheSameWayInAnyOrder) {
  std::vector<std::string> paths;
  for (int i = 0; i < 35; ++i) paths.push_back("file" + std::to_string(i));
  TreeBuilder forward(crowded);
  TreeBuilder backward(crowded);
  for (const std::string& path : paths) forward.add_file(path, file_of(1));
  for (auto it = paths.rbegin(); it != paths.rend(); ++it) backward.add_file(*it, file_of(1));
  const Tree one = std::move(forward).build();
  const Tree other = std::move(backward).build();
  EXPECT_EQ(one.node_count(), 36U);
  for (const std::string& path : paths) {
    ASSERT_NE(resolve(one, {path}), nullptr);
    EXPECT_EQ(resolve(one, {path})->inode, resolve(other, {path})->inode);
    EXPECT_NE(resolve(one, {path})->inode, kRootInode);
  }
}

// --- links and branches ------------------------------------------------------------------------

TEST(TreeBuilder, LinksAreNodesOfTheirOwnKind) {
  TreeBuilder builder;
  builder.add_link("d/latest", "steps/9_50");
  const Tree tree = std::move(builder).build();
  const Node* link = resolve(tree, {"d", "latest"});
  ASSERT_NE(link, nullptr);
  EXPECT_TRUE(link->is_link());
  EXPECT_FALSE(link->is_directory());
  EXPECT_EQ(link->file, nullptr);
  EXPECT_EQ(link->link, "steps/9_50");
  EXPECT_EQ(link->size, 10U);
  EXPECT_EQ(resolve(tree, {"d"})->listed_directories, 0U);
  EXPECT_EQ(tree.total_bytes(), 0U);
}

TEST(TreeBuilder, ALinkIsNoDirectoryAndLeadsSomewhere) {
  TreeBuilder builder;
  builder.add_link("a", "b");
  EXPECT_EQ(kind_of([&] { builder.add_file("a/x", file_of(1)); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { builder.add_directory("a"); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { builder.add_link("a", "c"); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { builder.add_link("c", ""); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([&] { builder.add_link("x/..", "c"); }), ErrorKind::kBadInput);
  EXPECT_EQ(kind_of([&] { builder.set_changing("missing"); }), ErrorKind::kInternal);
}

TEST(TreeBuilder, WhatMayChangeIsMarked) {
  TreeBuilder builder;
  builder.add_file("steps/1/a", file_of(1));
  builder.add_file("fixed/a", file_of(1));
  builder.set_changing("steps");
  const Tree tree = std::move(builder).build();
  EXPECT_TRUE(resolve(tree, {"steps"})->changing);
  EXPECT_TRUE(resolve(tree, {"steps"})->brief);
  EXPECT_TRUE(resolve(tree, {"steps", "1"})->brief);
  EXPECT_FALSE(resolve(tree, {"steps", "1"})->changing);
  EXPECT_FALSE(resolve(tree, {"steps", "1", "a"})->brief);
  EXPECT_FALSE(resolve(tree, {"fixed"})->brief);
  EXPECT_FALSE(tree.root().brief);
}

std::shared_ptr<const Tree> branch_of_one_file(BranchNumber number, InodeNumber parent,
                                               const std::string& name) {
  TreeBuilder builder(BranchRoot{number, parent, name});
  builder.add_file("rank_0/a", file_of(100));
  builder.set_mtime(7);
  return std::make_shared<const Tree>(std::move(builder).build());
}

InodeNumber trunk_directory(const std::string& name) {
  return trunk_inode_number(name, 0);
}

TEST(TreeBranches, AreSeenAsOneTree) {
  TreeBuilder builder{trunk_inode_number};
  builder.add_directory("steps/m");
  const InodeNumber steps = trunk_directory("steps");
  builder.add_branch(branch_of_one_file(5, steps, "z"), true);
  builder.add_branch(branch_of_one_file(6, steps, "a"), true);
  builder.add_branch(branch_of_one_file(7, steps, "hidden"), false);
  const Tree tree = std::move(builder).build();

  EXPECT_EQ(child_names(tree, *resolve(tree, {"steps"})),
            (std::vector<std::string>{"a", "m", "z"}));
  EXPECT_EQ(resolve(tree, {"steps"})->listed_directories, 3U);
  const Node* file = resolve(tree, {"steps", "z", "rank_0", "a"});
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->mtime_ns, 7);
  EXPECT_TRUE(is_in_branch(file->inode));
  EXPECT_EQ(branch_of(file->inode), 5U);
  EXPECT_EQ(tree.find(file->inode), file);
  EXPECT_EQ(tree.path(file->inode), "steps/z/rank_0/a");
  EXPECT_EQ(resolve(tree, {"steps", "z"})->parent, steps);
  EXPECT_NE(resolve(tree, {"steps", "a", "rank_0", "a"})->inode, file->inode);

  EXPECT_EQ(resolve(tree, {"steps", "hidden"}), nullptr);
  const Node* hidden = tree.find(branch_inode_number(7, "rank_0/a", 0));
  ASSERT_NE(hidden, nullptr);
  EXPECT_EQ(tree.path(hidden->inode), "steps/hidden/rank_0/a");
  EXPECT_EQ(tree.find(branch_inode_number(8, "rank_0/a", 0)), nullptr);
  EXPECT_EQ(tree.node_count(), 3U + 3 * 3U);
  EXPECT_EQ(tree.total_bytes(), 300U);
}

TEST(TreeBranches, NeedADirectoryToHangOn) {
  TreeBuilder builder{trunk_inode_number};
  builder.add_branch(branch_of_one_file(5, trunk_directory("steps"), "z"), true);
  EXPECT_EQ(kind_of([&] { std::move(builder).build(); }), ErrorKind::kInternal);
  EXPECT_EQ(kind_of([] { TreeBuilder(BranchRoot{1, 1, "a/b"}); }), ErrorKind::kBadInput);
}

TEST(InodeNumber, OfTrunksAndBranchesNeverMeet) {
  for (int i = 0; i < 10000; ++i) {
    const std::string path = "p" + std::to_string(i);
    const InodeNumber trunk = trunk_inode_number(path, 0);
    EXPECT_GT(trunk, kRootInode);
    EXPECT_FALSE(is_in_branch(trunk));
    const BranchNumber branch = branch_number(path, 0);
    EXPECT_LE(branch, kMaxBranchNumber);
    const InodeNumber inode = branch_inode_number(branch, path, 0);
    EXPECT_TRUE(is_in_branch(inode));
    EXPECT_EQ(branch_of(inode), branch);
    EXPECT_LT(inode, InodeNumber{1} << 63);
  }
}

}  // namespace
}  // namespace reshardfs
