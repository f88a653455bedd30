// SPDX-License-Identifier: Apache-2.0
#include "fuse/kernel_caches.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix/descriptor.h"

namespace reshardfs::kernel_caches_tests {
namespace {

using testing::IsSupersetOf;
using testing::UnorderedElementsAre;
using TreePtr = std::shared_ptr<const Tree>;

class NoBytes final : public VirtualFile {
 public:
  std::uint64_t size() const override { return 0; }
  void read_at(std::uint64_t, std::span<std::byte>) const override {}
};

TreePtr tree_of(const std::vector<std::string>& paths) {
  TreeBuilder builder;
  for (const std::string& path : paths) builder.add_file(path, std::make_shared<NoBytes>());
  return std::make_shared<const Tree>(std::move(builder).build());
}

/// In place of the kernel: what it is told.
class KernelCachesTest : public testing::Test {
 protected:
  KernelCachesTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    kernel_ = Descriptor(ends[0]);
    fuse_ = Descriptor(ends[1]);
  }

  /// @return such as "name 1/x", "all 2" or "attributes 3", by numbers of nodes.
  std::vector<std::string> told(const TreeChange& change, const TreePtr& now) {
    KernelCaches caches;
    caches.start(fuse_.get(), change, now, events_);
    while (events_.wait() != Event::kToldKernel) continue;
    EXPECT_TRUE(caches.stop(std::chrono::hours(1)));
    std::vector<std::string> messages;
    std::array<char, 4096> bytes{};
    ssize_t got = 0;
    while ((got = ::recv(kernel_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0) {
      messages.push_back(words_of({bytes.data(), static_cast<std::size_t>(got)}));
    }
    return messages;
  }
  static std::string words_of(std::string_view message) {
    fuse_out_header header{};
    std::memcpy(&header, message.data(), sizeof header);
    EXPECT_EQ(header.len, message.size());
    EXPECT_EQ(header.unique, 0U);
    message.remove_prefix(sizeof header);
    if (header.error == FUSE_NOTIFY_INVAL_ENTRY) {
      fuse_notify_inval_entry_out out{};
      std::memcpy(&out, message.data(), sizeof out);
      message.remove_prefix(sizeof out);
      EXPECT_EQ(message.size(), out.namelen + 1);
      EXPECT_EQ(message.back(), '\0');
      return "name " + std::to_string(out.parent) + "/" +
             std::string(message.substr(0, out.namelen));
    }
    EXPECT_EQ(header.error, FUSE_NOTIFY_INVAL_INODE);
    fuse_notify_inval_inode_out out{};
    EXPECT_EQ(message.size(), sizeof out);
    std::memcpy(&out, message.data(), sizeof out);
    EXPECT_EQ(out.len, 0);
    EXPECT_TRUE(out.off == 0 || out.off == -1) << out.off;
    return (out.off == 0 ? "all " : "attributes ") + std::to_string(out.ino);
  }

  static std::string all(InodeNumber inode) { return "all " + std::to_string(inode); }
  static std::string attributes(InodeNumber inode) { return "attributes " + std::to_string(inode); }
  static std::string name(InodeNumber directory, const std::string& name) {
    return "name " + std::to_string(directory) + "/" + name;
  }

  Descriptor kernel_;
  Descriptor fuse_;
  WakePipe events_;
};

TEST_F(KernelCachesTest, NamesOfATreeAreAllButTheRoot) {
  const TreePtr tree = tree_of({"a/x", "b"});
  std::vector<std::string> names;
  for (const KnownName& known : names_of(*tree)) {
    EXPECT_EQ(known.inode, tree->lookup(known.directory, known.name)->inode);
    names.push_back(known.name + (known.is_directory ? "/" : ""));
  }
  EXPECT_THAT(names, UnorderedElementsAre("a/", "x", "b"));
}

TEST_F(KernelCachesTest, ChangedAttributesKeepTheBytesAndTheNames) {
  const TreePtr tree = tree_of({"a/x"});
  const Node& a = *tree->lookup(kRootInode, "a");
  const Node& x = *tree->lookup(a.inode, "x");
  EXPECT_THAT(
      told({.names = names_of(*tree)}, tree),
      UnorderedElementsAre(all(a.inode), all(kRootInode), all(a.inode), attributes(x.inode)));
  EXPECT_THAT(told({.names = names_of(*tree), .has_lost = true}, tree),
              IsSupersetOf({all(x.inode)}))
      << "the bytes are stale, too";
}

TEST_F(KernelCachesTest, NamesThatAreGoneOrNewOrOfOtherNodesAreForgotten) {
  const TreePtr before = tree_of({"a/x", "gone"});
  const TreePtr now = tree_of({"a/x", "a/y", "new"});
  const InodeNumber a = now->lookup(kRootInode, "a")->inode;
  TreeChange change{.names = names_of(*before), .is_replaced = true};
  std::vector<std::string> names;
  const auto tell = [&] {
    names.clear();
    for (const std::string& message : told(change, now)) {
      if (message.starts_with("name")) names.push_back(message);
    }
  };
  for (KnownName& known : change.names) {
    if (known.name == "a") known.inode = a;
    if (known.name == "x") known = {a, now->lookup(a, "x")->inode, false, "x"};
  }
  tell();
  EXPECT_THAT(
      names, UnorderedElementsAre(name(kRootInode, "gone"), name(a, "y"), name(kRootInode, "new")));
  for (KnownName& known : change.names) {
    if (known.name == "x") known.inode += 1000;
  }
  tell();
  EXPECT_THAT(names, IsSupersetOf({name(a, "x")})) << "it is another file";
  change.is_replaced = false;
  tell();
  EXPECT_THAT(names, UnorderedElementsAre(name(kRootInode, "gone"), name(a, "x")));
}

TEST_F(KernelCachesTest, RunsWhileTheKernelTakesNoMessage) {
  const TreePtr tree = tree_of({"x"});
  std::array<char, 4096> bytes{};
  while (::send(fuse_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  KernelCaches caches;
  EXPECT_FALSE(caches.is_running());
  caches.start(fuse_.get(), {.names = names_of(*tree)}, tree, events_);
  EXPECT_TRUE(caches.is_running());
  EXPECT_FALSE(caches.stop(std::chrono::milliseconds(0)));
  while (!events_.wait_for(std::chrono::milliseconds(0))) {
    ::recv(kernel_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  }
  EXPECT_TRUE(caches.stop(std::chrono::hours(1)));
  EXPECT_FALSE(caches.is_running());
}

TEST_F(KernelCachesTest, AKernelThatRefusesEachMessageEndsIt) {
  const TreePtr tree = tree_of({"x"});
  fuse_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(told({.names = names_of(*tree)}, tree), testing::IsEmpty());
}

}  // namespace
}  // namespace reshardfs::kernel_caches_tests
