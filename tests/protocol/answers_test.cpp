// SPDX-License-Identifier: Apache-2.0
/// What the kernel is told beside the bytes: names, what it may keep, and what is counted.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/process/counters.h"
#include "protocol/protocol_test.h"

namespace reshardfs::testing_protocol {
namespace {

using ProtocolAnswers = ProtocolTest;

TEST_F(ProtocolAnswers, ListingsShowWhatIsNotHidden) {
  const std::uint64_t handle = open(kRootInode, FUSE_OPENDIR);
  std::vector<std::string> expected{".", "..", "broken", "changing", "dir", "link", "status"};
  for (const std::uint32_t opcode : {FUSE_READDIR, FUSE_READDIRPLUS}) {
    const Reply reply = kernel().call(opcode, kRootInode, read_body(handle, 0, 4096));
    std::vector<std::string> names;
    for (const ListedName& entry : parse_listing(reply.body, opcode == FUSE_READDIRPLUS)) {
      names.push_back(entry.name);
    }
    EXPECT_EQ(names, expected);
  }
  EXPECT_EQ(error_of(FUSE_RELEASEDIR, kRootInode, release_body(handle)), 0);
  EXPECT_NE(node(".hidden", "file"), 0U) << "it has a name all the same";
}

TEST_F(ProtocolAnswers, ListingsWithAttributesBringTheNodesThatTheKernelLacks) {
  const std::uint64_t directory = node("dir");
  const std::uint64_t handle = open(directory, FUSE_OPENDIR);
  const Reply reply = kernel().call(FUSE_READDIRPLUS, directory, read_body(handle, 0, 65536));
  std::string_view rest = reply.body;
  for (const ListedName& entry : parse_listing(reply.body, true)) {
    const auto plus = as<fuse_direntplus>(rest);
    rest.remove_prefix(FUSE_DIRENTPLUS_SIZE(&plus));
    const bool dots = entry.name == "." || entry.name == "..";
    // That of "0", which has no bytes yet, may have to be made: the kernel asks for it.
    EXPECT_EQ(plus.entry_out.nodeid, dots || entry.name == "0" ? 0 : entry.inode) << entry.name;
    if (dots) continue;
    EXPECT_EQ(plus.entry_out.attr.size, kFileBytes.at(std::stoul(entry.name)));
  }
  EXPECT_EQ(error_of(FUSE_RELEASEDIR, directory, release_body(handle)), 0);
}

TEST_F(ProtocolAnswers, TheKernelKeepsWhatDoesNotChange) {
  struct Case {
    std::uint64_t inode = 0;
    std::uint32_t opcode = FUSE_OPEN;
    std::uint32_t flags = 0;
  };
  for (const Case& each : {Case{node("dir"), FUSE_OPENDIR, FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR},
                           Case{node("changing"), FUSE_OPENDIR, 0},
                           Case{node("dir", "4"), FUSE_OPEN, FOPEN_KEEP_CACHE},
                           Case{node("status"), FUSE_OPEN, FOPEN_DIRECT_IO}}) {
    const auto opened =
        as<fuse_open_out>(kernel().call(each.opcode, each.inode, open_body(0)).body);
    EXPECT_EQ(opened.open_flags & (FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR | FOPEN_DIRECT_IO),
              each.flags)
        << each.inode;
    EXPECT_EQ(error_of(each.opcode == FUSE_OPEN ? FUSE_RELEASE : FUSE_RELEASEDIR, each.inode,
                       release_body(opened.fh)),
              0);
  }
}

TEST_F(ProtocolAnswers, EachRequestIsCounted) {
  const std::uint64_t directory = node("dir");
  const std::uint64_t file = node("dir", "4");
  const auto before = counters().values();
  kernel().lookup(directory, "2");
  EXPECT_EQ(error_of(FUSE_GETATTR, file, bytes_of(fuse_getattr_in{})), 0);
  const std::uint64_t handle = open(file);
  EXPECT_EQ(read(file, handle, 0, 4096).body.size(), 4096U);
  EXPECT_EQ(read(file, handle, kFileBytes[4], 4096).body.size(), 0U);
  EXPECT_EQ(error_of(FUSE_RELEASE, file, release_body(handle)), 0);
  const std::uint64_t listing = open(directory, FUSE_OPENDIR);
  EXPECT_EQ(error_of(FUSE_READDIR, directory, read_body(listing, 0, 4096)), 0);
  EXPECT_EQ(error_of(FUSE_RELEASEDIR, directory, release_body(listing)), 0);
  EXPECT_EQ(error_of(FUSE_GETXATTR, file, getxattr_body("user.reshardfs.sources", 99)), 0);
  const auto after = counters().values();
  std::vector<std::uint64_t> counted;
  for (std::size_t i = 0; i < after.requests.size(); ++i) {
    counted.push_back(after.requests.at(i) - before.requests.at(i));
  }
  EXPECT_EQ(counted, (std::vector<std::uint64_t>{1, 1, 1, 2, 1, 1}));
  EXPECT_EQ(after.bytes_delivered() - before.bytes_delivered(), 4096U);
  EXPECT_EQ(after.reads.count() - before.reads.count(), 2U);
  EXPECT_EQ(after.reads_in_flight, before.reads_in_flight);
  EXPECT_EQ(after.request_failures, before.request_failures);
  const std::uint64_t broken = node("broken");
  const std::uint64_t opened = open(broken);
  EXPECT_EQ(error_of(FUSE_READ, broken, read_body(opened, 0, 10)), EIO);
  EXPECT_EQ(error_of(FUSE_RELEASE, broken, release_body(opened)), 0);
  const auto failed = counters().values();
  EXPECT_EQ(failed.request_failures - after.request_failures, 1U);
  EXPECT_EQ(failed.read_errors[0] - after.read_errors[0], 1U);
  EXPECT_EQ(failed.reads_in_flight, before.reads_in_flight);
}

TEST_F(ProtocolAnswers, AValueMayBeAsLongAsTheKernelAllows) {
  const std::uint64_t file = node("dir", "4");
  constexpr std::uint32_t kMost = 65536;
  const Reply reply =
      kernel().call(FUSE_GETXATTR, file, getxattr_body("user.reshardfs.longest", kMost));
  EXPECT_EQ(reply.error, 0);
  EXPECT_EQ(reply.body.size(), kMost);
  const auto names =
      as<fuse_getxattr_out>(kernel().call(FUSE_LISTXATTR, file, listxattr_body(0)).body).size;
  EXPECT_EQ(kernel().call(FUSE_LISTXATTR, file, listxattr_body(names)).body.size(), names);
  EXPECT_EQ(error_of(FUSE_LISTXATTR, file, listxattr_body(names - 1)), ERANGE);
}

}  // namespace
}  // namespace reshardfs::testing_protocol
