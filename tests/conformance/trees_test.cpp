// SPDX-License-Identifier: Apache-2.0
// What is found through a tree is what the backend itself gives, however it was listed.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "conformance/place.h"
#include "storage/remote/remote_tree.h"

namespace reshardfs::conformance {
namespace {

using Names = std::vector<std::string>;

Names names_of(const std::vector<DirectoryEntry>& entries) {
  Names names;
  for (const DirectoryEntry& entry : entries) {
    names.push_back(entry.name + (entry.is_directory ? "/" : entry.is_regular ? "" : "?"));
  }
  return names;
}

/// All objects in one list, if the backend can; and each directory by itself.
class ConformanceTree : public testing::TestWithParam<std::size_t> {
 protected:
  SourceTreePtr tree_ = tree_of(place().root, GetParam());
};

TEST_P(ConformanceTree, ListsDirectories) {
  const std::vector<std::filesystem::path> directories{place().root,
                                                       place().root / "many",
                                                       place().root / "names",
                                                       place().root / "nested",
                                                       place().root / "nested/a b/é+%/",
                                                       place().root / "nested.d"};
  tree_->foresee_lists(directories);
  for (const auto& directory : directories) {
    const Names names = names_of(backend().list(directory));
    EXPECT_EQ(names_of(tree_->list(directory)), names) << directory;
    EXPECT_EQ(names_of(tree_->list(directory)), names) << directory;
  }
  for (const char* name : {"lost", "nest", "nested/lost", "lost/file"}) {
    EXPECT_THROW(tree_->list(place().root / name), Error) << name;
  }
}

TEST_P(ConformanceTree, TellsKinds) {
  for (const char* name :
       {"", "nested", "nested/a b", "nested.d", "nested/", "empty", "one", "nested-x",
        "nested/a b/é+%/deep", "lost", "nest", "nested/lost", "one/file"}) {
    EXPECT_EQ(tree_->kind(place().root / name), backend().kind(place().root / name)) << name;
  }
}

TEST_P(ConformanceTree, FilesAreTheSame) {
  tree_->list(place().root);
  for (const char* name : {"large", "one", "empty", "nested/a b/é+%/deep", "names/a+b"}) {
    const ByteSourcePtr source = tree_->open_source(place().root / name);
    const ByteSourcePtr other = open(name);
    ASSERT_EQ(source->size(), other->size()) << name;
    EXPECT_EQ(source->name(), other->name());
    EXPECT_EQ(source->mtime_ns(), other->mtime_ns()) << name;
    EXPECT_EQ(source->stamp().inode, other->stamp().inode) << name;
    EXPECT_EQ(source->stamp().device, other->stamp().device) << name;
    std::vector<std::byte> bytes(source->size());
    std::vector<std::byte> expected(source->size());
    source->read_at(0, bytes);
    source->check_unchanged();
    other->read_at(0, expected);
    EXPECT_EQ(bytes, expected) << name;
  }
  EXPECT_THROW(tree_->open_source(place().root / "lost"), Error);
  // The same identity each time, so that a cache knows it again.
  const SourceTreePtr again = tree_of(place().root, GetParam());
  again->list(place().root);
  EXPECT_EQ(again->open_source(place().root / "large")->identity(),
            tree_->open_source(place().root / "large")->identity());
}

TEST_P(ConformanceTree, AFileMayBeTheRoot) {
  if (!is_url(place().root)) return;  // nothing makes such a tree of a path
  const RemoteTree tree(place().root / "one", GetParam());
  EXPECT_EQ(tree.kind(place().root / "one"), PathKind::kOther);
  EXPECT_EQ(tree.open_source(place().root / "one")->size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(AtOnceAndOneByOne, ConformanceTree,
                         testing::Values(RemoteTree::kMostAtOnce, std::size_t{20}));

}  // namespace
}  // namespace reshardfs::conformance
