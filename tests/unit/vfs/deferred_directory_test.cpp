// SPDX-License-Identifier: Apache-2.0
#include "vfs/deferred_directory.h"

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "unit/vfs/sized_file.h"

namespace reshardfs {
namespace {

using testing_vfs::child_names;
using testing_vfs::file_of;
using testing_vfs::resolve;

using GivenSizes = std::vector<std::pair<std::string, std::uint64_t>>;

class GivenFiles final : public DeferredFiles {
 public:
  explicit GivenFiles(GivenSizes files) : files_(std::move(files)) {}

  void tell(Tell call) const override {
    for (const auto& [name, size] : files_) call(name, size);
  }
  void make(Take call) const override {
    ++made;
    if (fails > 0) {
      --fails;
      throw std::bad_alloc();
    }
    for (const auto& [name, size] : files_) call(name, file_of(size));
  }

  mutable std::atomic<int> made = 0;
  mutable std::atomic<int> fails = 0;

 private:
  GivenSizes files_;
};

const GivenSizes kFiles{{"w.2.npy", 200}, {"w.10.npy", 100}, {"empty", 0}, {"b.npy", 5}};

/// Others stand before, beside and behind.
void add_others(TreeBuilder& builder) {
  builder.set_mtime(77);
  builder.add_file("merged/all.ckpt", file_of(1000));
  builder.add_file("merged/params.json", file_of(10));
  builder.add_directory("rank_0");
  builder.add_link("latest", "rank_0");
}

Tree deferred(TreeBuilder builder, std::shared_ptr<const DeferredFiles> files) {
  add_others(builder);
  builder.add_deferred("merged/params", std::move(files));
  return std::move(builder).build();
}

Tree eager(TreeBuilder builder, const GivenSizes& files) {
  add_others(builder);
  for (const auto& [name, size] : files) builder.add_file("merged/params/" + name, file_of(size));
  return std::move(builder).build();
}

using Seen = std::tuple<InodeNumber, std::string, std::uint64_t, bool, bool, bool, std::uint32_t,
                        std::int64_t, std::vector<std::string>>;

/// All that the kernel is told, by number.
std::map<InodeNumber, Seen> all_nodes_of(const Tree& tree) {
  std::map<InodeNumber, Seen> all;
  tree.for_each([&](const Node& node) {
    const Seen seen{node.parent,
                    tree.path(node.inode),
                    node.size,
                    node.hidden,
                    node.is_directory(),
                    node.brief,
                    node.listed_directories,
                    node.mtime_ns.value_or(-1),
                    child_names(tree, node)};
    EXPECT_TRUE(all.emplace(node.inode, seen).second);
  });
  return all;
}

void expect_same(const Tree& one, const Tree& other) {
  EXPECT_EQ(one.sum(), other.sum());
  EXPECT_EQ(one.node_count(), other.node_count());
  EXPECT_EQ(one.total_bytes(), other.total_bytes());
  EXPECT_EQ(all_nodes_of(one), all_nodes_of(other));
  EXPECT_EQ(one.sum(), other.sum());
}

const Node& params_of(const Tree& tree) {
  return *resolve(tree, {"merged", "params"});
}

TEST(DeferredDirectory, IsAsIfItsFilesHadBeenAdded) {
  expect_same(deferred(TreeBuilder(), std::make_shared<GivenFiles>(kFiles)),
              eager(TreeBuilder(), kFiles));
  expect_same(deferred(TreeBuilder(3), std::make_shared<GivenFiles>(kFiles)),
              eager(TreeBuilder(3), kFiles));
  expect_same(deferred(TreeBuilder(BranchRoot{5, 9, "step"}), std::make_shared<GivenFiles>(kFiles)),
              eager(TreeBuilder(BranchRoot{5, 9, "step"}), kFiles));
}

TEST(DeferredDirectory, IsMadeByWhatNeedsItsFilesAlone) {
  const auto files = std::make_shared<GivenFiles>(kFiles);
  const Tree tree = deferred(TreeBuilder(), files);
  const Node& closed = params_of(tree);
  EXPECT_TRUE(closed.deferred && closed.must_open() && closed.is_directory());
  EXPECT_EQ(tree.path(closed.inode), "merged/params");
  EXPECT_EQ(tree.lookup(kRootInode, "none"), nullptr);
  static_cast<void>(tree.sum());
  EXPECT_EQ(files->made, 0);
  EXPECT_EQ(tree.lookup(closed.inode, "none"), nullptr);
  EXPECT_EQ(files->made, 1);
  EXPECT_FALSE(params_of(tree).must_open());
  ASSERT_NE(resolve(tree, {"merged", "params", "w.10.npy"}), nullptr);
  EXPECT_EQ(resolve(tree, {"merged", "params", "w.10.npy"})->size, 100U);
  EXPECT_EQ(child_names(tree, params_of(tree)),
            (std::vector<std::string>{"b.npy", "empty", "w.10.npy", "w.2.npy"}));
  EXPECT_EQ(files->made, 1);
}

TEST(DeferredDirectory, IsMadeForANumberThatAnotherProcessHasTold) {
  const Tree before = eager(TreeBuilder(), kFiles);
  const Tree tree = deferred(TreeBuilder(), std::make_shared<GivenFiles>(kFiles));
  const Node* const known = resolve(before, {"merged", "params", "b.npy"});
  const Node* const node = tree.find(known->inode);
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->size, 5U);
  EXPECT_EQ(tree.path(node->inode), "merged/params/b.npy");
}

TEST(DeferredDirectory, IsNotMadeForANumberThatNoneOfItsFilesHas) {
  const auto older = std::make_shared<GivenFiles>(kFiles);
  const auto newer = std::make_shared<GivenFiles>(kFiles);
  const auto first = std::make_shared<const Tree>(deferred(TreeBuilder(1), older));
  const auto second = std::make_shared<const Tree>(deferred(TreeBuilder(2), newer));
  const Tree both = Tree::with_former({second, first});
  for (const InodeNumber unknown : {InodeNumber{0}, InodeNumber{2}, ~InodeNumber{0}}) {
    EXPECT_EQ(both.find(unknown), nullptr);
  }
  EXPECT_EQ(newer->made + older->made, 0);
  const Tree told = eager(TreeBuilder(1), kFiles);
  EXPECT_NE(both.find(resolve(told, {"merged", "params", "b.npy"})->inode), nullptr);
  EXPECT_EQ(newer->made, 0);
  EXPECT_EQ(older->made, 1);
}

TEST(DeferredDirectory, IsTriedAgainWhereThereWasNoMemory) {
  const auto files = std::make_shared<GivenFiles>(kFiles);
  files->fails = 2;
  const Tree tree = deferred(TreeBuilder(), files);
  const InodeNumber inode = params_of(tree).inode;
  EXPECT_THROW(static_cast<void>(tree.open(inode)), std::bad_alloc);
  const Tree told = eager(TreeBuilder(), kFiles);
  EXPECT_EQ(tree.find(resolve(told, {"merged", "params", "b.npy"})->inode), nullptr);
  EXPECT_EQ(tree.open(inode)->children.size(), kFiles.size());
}

TEST(DeferredDirectory, IsMadeOnceForAllThreads) {
  const auto files = std::make_shared<GivenFiles>(kFiles);
  const Tree tree = deferred(TreeBuilder(), files);
  const InodeNumber inode = params_of(tree).inode;
  std::vector<std::thread> threads;
  std::atomic<int> found = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { found += tree.lookup(inode, "empty") != nullptr ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, 8);
  EXPECT_EQ(files->made, 1);
}

TEST(DeferredDirectory, IsMadeAtOnceWhereNumbersCollide) {
  // Every path has one of eight numbers at first, so that some of twelve have to take others.
  const auto numbering = [](std::string_view path, std::uint64_t attempt) {
    return 2 + (inode_number(path, 0) + attempt) % (attempt == 0 ? 8 : 64);
  };
  GivenSizes files = kFiles;
  for (int i = 0; i < 8; ++i) files.emplace_back("more" + std::to_string(i), i);
  const Tree tree = deferred(TreeBuilder(numbering), std::make_shared<GivenFiles>(files));
  EXPECT_FALSE(params_of(tree).deferred);
  expect_same(tree, eager(TreeBuilder(numbering), files));
}

TEST(DeferredDirectory, IsMadeAtOnceWithOtherEntriesOrDirectories) {
  GivenSizes nested = kFiles;
  nested.emplace_back("a/b.npy", 3);
  const Tree tree = deferred(TreeBuilder(), std::make_shared<GivenFiles>(nested));
  EXPECT_EQ(params_of(tree).listed_directories, 1U);
  expect_same(tree, eager(TreeBuilder(), nested));

  TreeBuilder builder;
  builder.add_deferred("d", std::make_shared<GivenFiles>(GivenSizes{{"a", 1}}));
  builder.add_file("d/b", file_of(2));
  const Tree shared = std::move(builder).build();
  EXPECT_EQ(child_names(shared, *resolve(shared, {"d"})), (std::vector<std::string>{"a", "b"}));
}

TEST(DeferredDirectory, IsNotThereWithoutFiles) {
  expect_same(deferred(TreeBuilder(), std::make_shared<GivenFiles>(GivenSizes{})),
              eager(TreeBuilder(), {}));
}

TEST(DeferredDirectory, RefusesWhatTheKernelCannotShowBeforeItIsMade) {
  const auto add = [](const std::string& name, std::uint64_t size) {
    TreeBuilder builder;
    builder.add_deferred("d", std::make_shared<GivenFiles>(GivenSizes{{"fine", 1}, {name, size}}));
  };
  for (const std::string& name :
       {std::string(""), std::string(".."), std::string("a\nb"), std::string(256, 'x')}) {
    EXPECT_THROW(add(name, 1), Error) << name;
  }
  EXPECT_THROW(add("large", std::uint64_t{1} << 63), Error);
  EXPECT_NO_THROW(add(std::string(255, 'x'), 1));
  TreeBuilder builder;
  builder.add_deferred("d", std::make_shared<GivenFiles>(GivenSizes{{"twice", 1}, {"twice", 1}}));
  EXPECT_THROW(std::move(builder).build(), Error);
}

TEST(DeferredDirectory, IsPartOfTreesOfTrees) {
  const auto first =
      std::make_shared<const Tree>(deferred(TreeBuilder(1), std::make_shared<GivenFiles>(kFiles)));
  const auto second = std::make_shared<const Tree>(
      deferred(TreeBuilder(2), std::make_shared<GivenFiles>(GivenSizes{{"new.npy", 4}})));
  const Tree both = Tree::with_former({second, first});
  const Node* const former = resolve(*first, {"merged", "params", "b.npy"});
  ASSERT_NE(both.find(former->inode), nullptr);
  EXPECT_EQ(both.find(former->inode)->size, 5U);
  EXPECT_EQ(child_names(both, *both.open(params_of(both).inode)),
            std::vector<std::string>{"new.npy"});

  TreeBuilder trunk(trunk_inode_number);
  trunk.add_directory("steps");
  const InodeNumber steps = trunk_inode_number("steps", 0);
  trunk.add_branch(std::make_shared<const Tree>(deferred(TreeBuilder(BranchRoot{5, steps, "one"}),
                                                         std::make_shared<GivenFiles>(kFiles))),
                   true);
  const Tree tree = std::move(trunk).build();
  const Node* const params = resolve(tree, {"steps", "one", "merged", "params"});
  ASSERT_NE(params, nullptr);
  EXPECT_TRUE(params->deferred);
  EXPECT_EQ(tree.open(params->inode)->children.size(), kFiles.size());
  EXPECT_EQ(tree.path(resolve(tree, {"steps", "one", "merged", "params", "empty"})->inode),
            "steps/one/merged/params/empty");
}

}  // namespace
}  // namespace reshardfs
