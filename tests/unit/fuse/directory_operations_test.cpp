// SPDX-License-Identifier: Apache-2.0
/// Directories of which another generation holds something else, and such as are opened only when
/// somebody looks.
#include <cerrno>
#include <new>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/deferred_files.h"
#include "base/process/counters.h"
#include "unit/fuse/operations_fixture.h"

namespace reshardfs::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_protocol::parse_listing;
using testing_vfs::file_of;

TreePtr finish(TreeBuilder builder) {
  return std::make_shared<const Tree>(std::move(builder).build());
}

/// A tree of files, and of a link that leads to the last of them.
TreePtr tree_of(const std::vector<std::string>& paths, const std::string& changing = "") {
  TreeBuilder builder;
  for (const std::string& path : paths) builder.add_file(path, file_of(10));
  if (!paths.empty()) builder.add_link("link", paths.back());
  if (!changing.empty()) builder.set_changing(changing);
  return finish(std::move(builder));
}

TreePtr changing_root() {
  TreeBuilder builder;
  builder.set_changing("");
  return finish(std::move(builder));
}

TreePtr pending_tree() {
  TreeBuilder builder;
  builder.set_pending();
  return finish(std::move(builder));
}

class DirectoryOperations : public OperationsTest {
 protected:
  InodeNumber node(const std::string& name) const {
    return source.current()->lookup(kRootInode, name)->inode;
  }
  /// The next look finds this.
  void will_find(TreePtr tree) {
    source.on_look = [this, tree = std::move(tree)] { source.show(tree); };
    if (!std::exchange(looking_, true)) served.refresher.start();
  }
  void will_open(TreePtr tree) {
    source.on_open_directory = [this, tree = std::move(tree)] { source.show(tree); };
  }
  void will_fail(const Error& error) {
    source.on_open_directory = [error] { throw error; };
  }
  std::uint64_t node_found(std::uint64_t directory, const std::string& name) {
    const KernelAnswer answer = lookup(directory, name);
    EXPECT_EQ(answer.error, 0);
    return as<fuse_entry_out>(answer.body).nodeid;
  }
  std::vector<std::string> list(std::uint64_t directory, std::uint64_t handle,
                                std::uint64_t position = 0, std::uint32_t size = 4096) {
    const KernelAnswer answer = call(FUSE_READDIR, directory, read_body(handle, position, size));
    EXPECT_EQ(answer.error, 0);
    std::vector<std::string> names;
    for (const auto& entry : parse_listing(answer.body, false)) names.push_back(entry.name);
    return names;
  }
  int list_error(std::uint64_t directory, std::uint64_t handle, std::uint64_t position = 0) {
    return error_of(FUSE_READDIR, directory, read_body(handle, position, 4096));
  }

 private:
  bool looking_ = false;
};

// --- looks -------------------------------------------------------------------------------------

TEST_F(DirectoryOperations, AnUnknownNameWaitsForALookWhereNamesMayChange) {
  source.show(tree_of({"d/a"}, "d"));
  const InodeNumber d = node("d");
  will_find(tree_of({"d/a", "d/b"}, "d"));
  EXPECT_EQ(node_found(kRootInode, "b"), 0U);
  EXPECT_EQ(source.looks, 0) << "the root does not change";
  EXPECT_NE(node_found(d, "b"), 0U);
  EXPECT_EQ(source.looks, 1);
}

TEST_F(DirectoryOperations, AKnownNameAsksForALookThatItDoesNotWaitFor) {
  source.show(tree_of({"d/a"}, "d"));
  const InodeNumber d = node("d");
  Step look;
  source.on_look = [&look] { look.begin(); };
  served.refresher.start();
  EXPECT_NE(node_found(d, "a"), 0U);
  look.wait_until_begun();
  look.let_go();
  EXPECT_TRUE(served.refresher.stop(1h));
}

TEST_F(DirectoryOperations, ADirectoryThatALookGivesUpIsWalkedToAgain) {
  source.show(tree_of({"d/a"}, "d"));
  will_find(tree_of({}));
  EXPECT_EQ(lookup(node("d"), "b").error, ESTALE) << "it is gone";
  source.show(changing_root());
  will_find(pending_tree());
  EXPECT_EQ(lookup(kRootInode, "b").error, ESTALE) << "what it holds is not known";
}

TEST_F(DirectoryOperations, ALinkIsThatOfTheNewestGeneration) {
  source.show(tree_of({"d/a"}));
  const InodeNumber link = node("link");
  will_find(tree_of({"d/a", "d/b"}));
  EXPECT_EQ(call(FUSE_READLINK, link).body, "d/b");
}

TEST_F(DirectoryOperations, AListingIsOfTheGenerationInWhichItBegan) {
  source.show(tree_of({"d/a"}, "d"));
  const InodeNumber d = node("d");
  const std::uint64_t handle = open(d, FUSE_OPENDIR);
  EXPECT_TRUE(holds_something(handle));
  EXPECT_EQ(served.listings.confirmed().size(), 1U) << "for the next process";
  will_find(tree_of({"d/a", "d/b"}, "d"));
  EXPECT_THAT(list(d, handle), ElementsAre(".", "..", "a", "b")) << "the newest";
  source.show(tree_of({"d/a", "d/b", "d/c"}, "d"));
  EXPECT_THAT(list(d, handle, 3), ElementsAre("b"));
  EXPECT_EQ(source.looks, 1);
  will_find(source.current());
  EXPECT_THAT(list(d, handle), ElementsAre(".", "..", "a", "b", "c")) << "begun again";

  will_find(tree_of({}));
  EXPECT_EQ(list_error(d, handle), ESTALE) << "the newest lacks the directory";
  EXPECT_EQ(list_error(d, handle, 3), ESTALE);
  EXPECT_EQ(error_of(FUSE_RELEASEDIR, d, release_body(handle)), 0);
  EXPECT_EQ(served.listings.count(), 0U);
  EXPECT_THAT(source.closed_trees, IsEmpty()) << "it was of its own generation";
  EXPECT_EQ(list_error(d, handle), ESTALE);
}

TEST_F(DirectoryOperations, AListingOfWhatIsNotKnownAnyMoreIsStale) {
  source.show(changing_root());
  const std::uint64_t handle = open(kRootInode, FUSE_OPENDIR);
  will_find(pending_tree());
  EXPECT_EQ(list_error(kRootInode, handle), ESTALE);
}

TEST_F(DirectoryOperations, TheKernelKeepsForADayWhatDoesNotChange) {
  source.show(tree_of({"d/a", "e/a"}, "d"));
  const auto seconds = [this](std::uint64_t directory, const std::string& name) {
    const auto entry = as<fuse_entry_out>(lookup(directory, name).body);
    EXPECT_EQ(entry.attr_valid, entry.nodeid == 0 ? 0 : entry.entry_valid);
    return entry.entry_valid;
  };
  constexpr std::uint64_t kDay = 86400;
  EXPECT_EQ(seconds(node("e"), "a"), kDay);
  EXPECT_EQ(seconds(node("e"), "b"), kDay) << "there is none";
  EXPECT_EQ(seconds(node("d"), "a"), 1U);
  EXPECT_EQ(seconds(node("d"), "b"), 1U) << "there is none";
}

// --- openings of directories that stay as they are ---------------------------------------------

TEST_F(DirectoryOperations, AnOpeningCountsForItsTreeUntilItIsClosed) {
  source.show(tree_of({"d/a"}));
  const InodeNumber d = node("d");
  const std::uint64_t handle = open(d, FUSE_OPENDIR);
  EXPECT_FALSE(holds_something(handle));
  EXPECT_EQ(served.own_openings.tree_of(handle), StagedSource::kTreeOfListings);
  EXPECT_EQ(error_of(FUSE_RELEASEDIR, d, release_body(handle)), 0);
  EXPECT_THAT(source.closed_trees, ElementsAre(StagedSource::kTreeOfListings));
  EXPECT_EQ(error_of(FUSE_RELEASEDIR, d, release_body(handle)), 0);
  EXPECT_EQ(source.closed_trees.size(), 1U) << "once";
}

TEST_F(DirectoryOperations, AListingIsOfTheTreeInWhichItWasOpened) {
  source.show(tree_of({"d/a"}));
  const InodeNumber d = node("d");
  const std::uint64_t handle = open(d, FUSE_OPENDIR);
  const TreePtr first = source.current();
  source.show(tree_of({"d/b"}));
  source.listed[StagedSource::kTreeOfListings] = first;
  const std::uint64_t other = 1000;
  ASSERT_TRUE(served.openings->add(other, StagedSource::kTreeOfListings + 1));
  const auto looked_up = [&](std::uint64_t opened) {
    const std::string body = call(FUSE_READDIRPLUS, d, read_body(opened, 2, 4096)).body;
    EXPECT_EQ(parse_listing(body, true).at(0).name, opened == handle ? "a" : "b");
    return as<fuse_entry_out>(body).nodeid != 0;
  };
  EXPECT_TRUE(looked_up(handle));
  EXPECT_TRUE(looked_up(other));
  source.former.insert(StagedSource::kTreeOfListings);
  EXPECT_FALSE(looked_up(handle)) << "the kernel must not keep more nodes that are not shown";
  EXPECT_TRUE(looked_up(other));
  source.listed[StagedSource::kTreeOfListings] = nullptr;
  EXPECT_EQ(list_error(d, handle), ESTALE);
}

// --- directories that are opened when somebody looks -------------------------------------------

TEST_F(DirectoryOperations, APendingOneIsOpenedFirst) {
  const auto make_pending = [this](bool opens) {
    source.show(pending_tree());
    if (opens) will_open(tree_of({"a"}));
  };
  make_pending(true);
  EXPECT_NE(node_found(kRootInode, "a"), 0U);
  make_pending(true);
  const std::uint64_t handle = open(kRootInode, FUSE_OPENDIR);
  EXPECT_THAT(list(kRootInode, handle), ElementsAre(".", "..", "a", "link"));
  make_pending(true);
  source.reopens = true;
  EXPECT_THAT(list(kRootInode, handle), ElementsAre(".", "..", "a", "link")) << "given up since";
  make_pending(false);
  source.reopens = false;
  EXPECT_EQ(list_error(kRootInode, handle), ESTALE);

  const auto failures = counters().values().request_failures;
  will_fail(Error(ErrorKind::kMissing, "x"));
  EXPECT_EQ(lookup(kRootInode, "a").error, ENOENT);
  EXPECT_EQ(error_of(FUSE_OPENDIR, kRootInode, open_body(0)), ENOENT);
  EXPECT_EQ(counters().values().request_failures, failures) << "the source has told of it";
}

TEST_F(DirectoryOperations, WhatWasGivenUpIsOpenedAgain) {
  const TreePtr whole = tree_of({"d/a"});
  source.show(whole);
  const InodeNumber d = node("d");
  const InodeNumber a = whole->lookup(d, "a")->inode;
  const std::uint64_t handle = open(d, FUSE_OPENDIR);
  const auto each = [&](const std::function<void(int error)>& expect) {
    const std::vector<std::function<int()>> requests{
        [&] { return lookup(d, "a").error; },
        [&] { return error_of(FUSE_GETATTR, a, bytes_of(fuse_getattr_in{})); },
        [&] { return error_of(FUSE_OPENDIR, d, open_body(0)); },
        [&] { return list_error(d, handle); }};
    for (std::size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      source.show(tree_of({}));
      expect(requests[i]());
    }
  };
  will_open(whole);
  each([](int error) { EXPECT_EQ(error, ESTALE) << "it was not given up, but is gone"; });
  source.reopens = true;
  each([&](int error) {
    EXPECT_EQ(error, 0);
    EXPECT_EQ(source.current(), whole);
  });
  will_open(tree_of({}));
  each([](int error) { EXPECT_EQ(error, ESTALE) << "under the path is another one now"; });
  will_fail(Error(ErrorKind::kMissing, "x"));
  each([](int error) { EXPECT_EQ(error, ESTALE) << "there is none any more"; });
  will_fail(Error(ErrorKind::kIo, "x").os_error(EACCES));
  each([](int error) { EXPECT_EQ(error, EACCES); });
}

TEST_F(DirectoryOperations, AttributesOfWhatIsOpenedAgainAreItsOwn) {
  const TreePtr whole = tree_of({"d/a"});
  const InodeNumber a = testing_vfs::resolve(*whole, {"d", "a"})->inode;
  source.reopens = true;
  will_open(whole);
  const KernelAnswer answer = call(FUSE_GETATTR, a, bytes_of(fuse_getattr_in{}));
  EXPECT_EQ(as<fuse_attr_out>(answer.body).attr.size, 10U);
}

class DeferredFile final : public DeferredFiles {
 public:
  void tell(Tell call) const override { call("file", 10); }
  void make(Take call) const override {
    ++made;
    if (fails) throw std::bad_alloc();
    call("file", file_of(10));
  }

  mutable int made = 0;
  bool fails = false;
};

TEST_F(DirectoryOperations, ADeferredOneIsMadeBeforeItIsSaidToBeOpen) {
  const auto files = std::make_shared<DeferredFile>();
  TreeBuilder builder;
  builder.add_deferred("d", files);
  source.show(finish(std::move(builder)));
  const InodeNumber d = node("d");
  const auto failures = counters().values().request_failures;
  files->fails = true;
  EXPECT_EQ(error_of(FUSE_OPENDIR, d, open_body(0)), ENOMEM);
  EXPECT_EQ(lookup(d, "file").error, ENOMEM);
  EXPECT_EQ(counters().values().request_failures, failures);
  files->fails = false;
  const int made = files->made;
  const std::uint64_t handle = open(d, FUSE_OPENDIR);
  EXPECT_EQ(files->made, made + 1);
  EXPECT_THAT(list(d, handle), ElementsAre(".", "..", "file"));
}

// --- all directories ---------------------------------------------------------------------------

TEST_F(DirectoryOperations, AnEntryWithoutRoomEndsThePartOfAListing) {
  source.show(tree_of({"d/" + std::string(200, 'a'), "d/b"}));
  constexpr std::uint32_t kEntry = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 1);
  EXPECT_THAT(list(node("d"), 0, 0, 3 * kEntry), ElementsAre(".", ".."))
      << "\"b\" would have room, but comes later";
}

/// Its size is found out in the storage queue.
class MadeFile final : public VirtualFile {
 public:
  explicit MadeFile(const StorageQueue& queue) : queue_(queue) {}
  std::uint64_t size() const override { return 0; }
  std::uint64_t stat_size() const override { return 100 * queue_.threads_taken(); }
  void read_at(std::uint64_t, std::span<std::byte>) const override {}
  Effort effort() const noexcept override { return Effort::kComputes; }

 private:
  const StorageQueue& queue_;
};

TEST_F(DirectoryOperations, ASizeThatMustBeMadeKeepsNoThreadFromAnsweringOthers) {
  TreeBuilder builder;
  builder.add_file("made", std::make_shared<MadeFile>(served.storage));
  source.show(finish(std::move(builder)));
  EXPECT_EQ(as<fuse_entry_out>(lookup(kRootInode, "made").body).attr.size, 100U);
  const KernelAnswer answer = call(FUSE_GETATTR, node("made"), bytes_of(fuse_getattr_in{}));
  EXPECT_EQ(as<fuse_attr_out>(answer.body).attr.size, 100U);
}

// --- the end of a process ----------------------------------------------------------------------

TEST_F(DirectoryOperations, WhatIsHandedOverIsClosedByTheOther) {
  source.show(tree_of({"d/a"}, "d"));
  const InodeNumber d = node("d");
  const std::uint64_t handle = open(d, FUSE_OPENDIR);
  served.channel.close();
  ask_in_vain(FUSE_RELEASEDIR, d, release_body(handle));
  EXPECT_EQ(served.openings->count(), 1U);
  EXPECT_EQ(served.listings.count(), 1U);
  fuse_interrupt_in interrupt{};
  interrupt.unique = ask_in_vain(FUSE_OPENDIR, d, open_body(0));
  EXPECT_EQ(served.openings->count(), 1U) << "the kernel has not heard of it";
  EXPECT_EQ(served.listings.count(), 1U);
  // Otherwise libfuse would still keep the request, and take this for its interrupt.
  const std::uint64_t unique = ask_in_vain(FUSE_INTERRUPT, 0, bytes_of(interrupt));
  served.channel.open();
  kernel.ask(FUSE_GETATTR, d, bytes_of(fuse_getattr_in{}));
  session.process_one();
  const KernelAnswer answer = kernel.answer();
  EXPECT_EQ(answer.unique, unique) << "of an interrupt of nothing";
  EXPECT_EQ(answer.error, EAGAIN);
  EXPECT_EQ(kernel.answer().error, 0);
}

}  // namespace
}  // namespace reshardfs::test
