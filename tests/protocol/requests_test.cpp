// SPDX-License-Identifier: Apache-2.0
/// What each request is answered with.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <numeric>
#include <set>

#include "base/process/counters.h"
#include "protocol/protocol_test.h"

namespace reshardfs::testing_protocol {
namespace {

using testing::ElementsAre;
using testing_mount::is_pattern;

using ProtocolRequests = ProtocolTest;

TEST(ProtocolInit, OtherMajorVersionsAreAskedToComeBack) {
  TestTree source;
  ProtocolSession session(source);
  FakeKernel& kernel = session.kernel();
  const Reply newer = kernel.call(FUSE_INIT, 0, FakeKernel::init_body(8));
  EXPECT_EQ(newer.error, 0);
  EXPECT_EQ(as<fuse_init_out>(newer.body).major, 7U);
  const Reply reply = kernel.call(FUSE_INIT, 0, FakeKernel::init_body());
  EXPECT_EQ(reply.error, 0);
  const auto out = as<fuse_init_out>(reply.body);
  EXPECT_EQ(out.major, 7U);
  EXPECT_EQ(out.max_write, kRequestBytes);
  EXPECT_NE(out.flags & FUSE_DO_READDIRPLUS, 0U);
  EXPECT_EQ(out.flags & FUSE_READDIRPLUS_AUTO, 0U);
  EXPECT_EQ(session.next_event(), Event::kLive);
  EXPECT_THAT(kernel.problems(), testing::IsEmpty());
}

TEST(ProtocolInit, NothingIsAnsweredBeforeIt) {
  TestTree source;
  ProtocolSession session(source);
  FakeKernel& kernel = session.kernel();
  EXPECT_EQ(kernel.call(FUSE_LOOKUP, kRootInode, name_body("dir")).error, EIO);
  EXPECT_EQ(kernel.call(FUSE_GETATTR, kRootInode, {}).error, EIO);
  session.init();
  EXPECT_NE(kernel.lookup(kRootInode, "dir"), 0U);
  EXPECT_EQ(kernel.call(FUSE_INIT, 0, FakeKernel::init_body()).error, EIO) << "a second one";
  EXPECT_THAT(kernel.problems(), testing::IsEmpty());
}

TEST_F(ProtocolRequests, LookupTellsAttributesAndAbsence) {
  const Reply reply = kernel().call(FUSE_LOOKUP, node("dir"), name_body("4"));
  const auto entry = as<fuse_entry_out>(reply.body);
  EXPECT_EQ(entry.attr.size, kFileBytes[4]);
  EXPECT_EQ(entry.attr.mode, S_IFREG | 0444U);
  EXPECT_EQ(entry.nodeid, entry.attr.ino);
  const Reply absent = kernel().call(FUSE_LOOKUP, kRootInode, name_body("absent"));
  EXPECT_EQ(absent.error, 0);
  EXPECT_EQ(as<fuse_entry_out>(absent.body).nodeid, 0U);
  EXPECT_EQ(error_of(FUSE_LOOKUP, kRootInode, name_body(std::string(255, 'n'))), 0);
  EXPECT_EQ(error_of(FUSE_LOOKUP, kRootInode, name_body(std::string(256, 'n'))), ENAMETOOLONG);
  EXPECT_EQ(error_of(FUSE_LOOKUP, 4711, name_body("x")), ESTALE);
  const Reply below_file = kernel().call(FUSE_LOOKUP, node("dir", "1"), name_body("x"));
  EXPECT_TRUE(below_file.error != 0 || as<fuse_entry_out>(below_file.body).nodeid == 0);
}

TEST_F(ProtocolRequests, GetattrTellsWhatLookupTold) {
  const std::uint64_t file = node("dir", "5");
  const Reply reply = kernel().call(FUSE_GETATTR, file, bytes_of(fuse_getattr_in{}));
  const auto out = as<fuse_attr_out>(reply.body);
  EXPECT_EQ(out.attr.size, kFileBytes[5]);
  EXPECT_EQ(out.attr.ino, file);
  EXPECT_EQ(error_of(FUSE_GETATTR, 4711, bytes_of(fuse_getattr_in{})), ESTALE);
}

TEST_F(ProtocolRequests, ReadGivesExactlyTheBytesOfTheRange) {
  for (std::size_t i = 0; i < kFileBytes.size(); ++i) {
    const std::uint64_t file = node("dir", std::to_string(i));
    const std::uint64_t handle = open(file);
    const std::uint64_t end = kFileBytes[i];
    for (const std::uint64_t offset :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095}, end - 1, end, end + 1,
          std::uint64_t{1} << 40U, std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
      for (const std::uint32_t size : {0U, 1U, 4096U, 131072U}) {
        const Reply reply = read(file, handle, offset, size);
        EXPECT_EQ(reply.error, 0);
        const std::uint64_t left = offset < end ? end - offset : 0;
        EXPECT_EQ(reply.body.size(), std::min<std::uint64_t>(size, left))
            << "file " << i << ", offset " << offset << ", size " << size;
        EXPECT_TRUE(is_pattern(reply.body, offset));
      }
    }
    EXPECT_EQ(error_of(FUSE_RELEASE, file, release_body(handle)), 0);
  }
  EXPECT_EQ(source.open_files(), 0);
}

TEST_F(ProtocolRequests, ReadNeedsAFile) {
  EXPECT_EQ(read(node("dir"), 0, 0, 10).error, EISDIR);
  EXPECT_EQ(read(4711, 0, 0, 10).error, ESTALE);
  EXPECT_EQ(read(node("broken"), 0, 0, 10).error, EIO);
  EXPECT_EQ(read(node("broken"), 0, 5000, 10).body.size(), 0U) << "nothing to read there";
}

TEST_F(ProtocolRequests, AFailedReadIsCountedWhenItsReaderKnows) {
  const auto failed = [] {
    const auto errors = counters().values().read_errors;
    return std::accumulate(errors.begin(), errors.end(), std::uint64_t{0});
  };
  const std::uint64_t broken = node("broken");
  std::uint64_t expected = failed();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(read(broken, 0, 0, 10).error, EIO);
    ASSERT_EQ(failed(), ++expected) << "read " << i;
  }
}

TEST_F(ProtocolRequests, AChangingFileIsReadAsItWasWhenItWasOpened) {
  const std::uint64_t file = node("status");
  const Reply opened = kernel().call(FUSE_OPEN, file, open_body(O_RDONLY));
  const auto out = as<fuse_open_out>(opened.body);
  EXPECT_NE(out.open_flags & FOPEN_DIRECT_IO, 0U);
  EXPECT_TRUE(holds_snapshots(1));
  EXPECT_EQ(read(file, out.fh, 100, 4096).body.size(), kSnapshotBytes - 100);
  EXPECT_EQ(error_of(FUSE_RELEASE, file, release_body(out.fh)), 0);
  EXPECT_TRUE(holds_snapshots(0));
  EXPECT_EQ(read(file, out.fh, 0, 4096).body.size(), 0U) << "the opening is over";
}

TEST_F(ProtocolRequests, OpenIsForReading) {
  const std::uint64_t file = node("dir", "4");
  EXPECT_EQ(error_of(FUSE_OPEN, file, open_body(O_WRONLY)), EROFS);
  EXPECT_EQ(error_of(FUSE_OPEN, file, open_body(O_RDWR)), EROFS);
  EXPECT_EQ(error_of(FUSE_OPEN, file, open_body(O_RDONLY | O_TRUNC)), EROFS);
  EXPECT_EQ(error_of(FUSE_OPEN, file, open_body(O_ACCMODE)), EROFS);
  EXPECT_EQ(error_of(FUSE_OPEN, node("dir"), open_body(O_RDONLY)), EISDIR);
  EXPECT_EQ(error_of(FUSE_OPEN, 4711, open_body(O_RDONLY)), ESTALE);
  EXPECT_EQ(error_of(FUSE_OPENDIR, file, open_body(O_RDONLY)), ENOTDIR);
  EXPECT_EQ(error_of(FUSE_OPENDIR, 4711, open_body(O_RDONLY)), ESTALE);
  EXPECT_EQ(source.open_files(), 0);
}

TEST_F(ProtocolRequests, ListingsAreCompleteInPiecesOfAnySize) {
  for (const std::string directory : {"dir", "changing"}) {
    const std::uint64_t inode = node(directory);
    for (const bool plus : {false, true}) {
      for (const std::uint32_t size : {200U, 333U, 4096U, 0x7fffffffU, 0xffffffffU}) {
        const std::uint64_t handle = open(inode, FUSE_OPENDIR);
        std::vector<std::string> names;
        std::uint64_t at = 0;
        for (;;) {
          const Reply reply = kernel().call(plus ? FUSE_READDIRPLUS : FUSE_READDIR, inode,
                                            read_body(handle, at, size));
          ASSERT_EQ(reply.error, 0);
          const std::vector<ListedName> listed = parse_listing(reply.body, plus);
          if (listed.empty()) break;
          for (const ListedName& one : listed) names.push_back(one.name);
          EXPECT_LE(reply.body.size(), size);
          at = listed.back().next;
        }
        ASSERT_GE(names.size(), 2U);
        EXPECT_EQ(names[0], ".");
        EXPECT_EQ(names[1], "..");
        const std::size_t expected = directory == "dir" ? kFileBytes.size() : 50;
        EXPECT_EQ(names.size(), expected + 2) << directory << " in pieces of " << size;
        EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
        EXPECT_EQ(error_of(FUSE_RELEASEDIR, inode, release_body(handle)), 0);
      }
    }
  }
}

TEST_F(ProtocolRequests, AnEntryThatJustFitsIsListed) {
  const std::uint64_t inode = node("dir");
  for (const std::uint32_t opcode : {FUSE_READDIR, FUSE_READDIRPLUS}) {
    const bool plus = opcode == FUSE_READDIRPLUS;
    const auto listed = [&](std::uint32_t size) {
      return kernel().call(opcode, inode, read_body(0, 0, size)).body;
    };
    const auto bytes = static_cast<std::uint32_t>(listed(4096).size());
    EXPECT_EQ(listed(bytes).size(), bytes);
    EXPECT_EQ(parse_listing(listed(bytes - 1), plus).size() + 1,
              parse_listing(listed(bytes), plus).size());
  }
}

/// The kernel has the nodes of "." and "..": an entry with a number would count as a lookup.
TEST_F(ProtocolRequests, ListingsLookUpNoDots) {
  const std::string body = kernel().call(FUSE_READDIRPLUS, node("dir"), read_body(0, 0, 4096)).body;
  const std::vector<ListedName> names = parse_listing(body, true);
  ASSERT_GT(names.size(), 2U);
  std::size_t at = 0;
  int looked_up = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto entry = as<fuse_entry_out>(std::string_view(body).substr(at));
    if (i < 2) {
      EXPECT_EQ(entry.nodeid, 0U) << names[i].name;
    }
    looked_up += entry.nodeid != 0 ? 1 : 0;
    at += sizeof entry + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + names[i].name.size());
  }
  EXPECT_GT(looked_up, 0);
}

TEST_F(ProtocolRequests, ListingsBeginAnywhere) {
  const std::uint64_t inode = node("dir");
  for (const std::uint64_t offset : {std::uint64_t{8}, std::uint64_t{9}, std::uint64_t{1} << 31U,
                                     std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    EXPECT_EQ(kernel().call(FUSE_READDIR, inode, read_body(0, offset, 4096)).body, "") << offset;
  }
  const Reply reply = kernel().call(FUSE_READDIR, inode, read_body(0, 7, 4096));
  EXPECT_EQ(parse_listing(reply.body, false).size(), 1U);
  EXPECT_EQ(kernel().call(FUSE_READDIR, inode, read_body(0, 0, 5)).body, "") << "no room";
  EXPECT_EQ(error_of(FUSE_READDIR, node("dir", "1"), read_body(0, 0, 4096)), ENOTDIR);
  EXPECT_EQ(error_of(FUSE_READDIRPLUS, node("link"), read_body(0, 0, 4096)), ENOTDIR);
}

TEST_F(ProtocolRequests, ExtendedAttributesAsTheirSizeOrAsAWhole) {
  const std::uint64_t file = node("dir", "4");
  const std::string name = "user.reshardfs." + std::string(kListed);
  Reply reply = kernel().call(FUSE_GETXATTR, file, getxattr_body(name, 0));
  EXPECT_EQ(as<fuse_getxattr_out>(reply.body).size, kListedValue.size());
  reply = kernel().call(FUSE_GETXATTR, file, getxattr_body(name, 0xffffffff));
  EXPECT_EQ(reply.body, kListedValue);
  const auto bytes = static_cast<std::uint32_t>(kListedValue.size());
  EXPECT_EQ(kernel().call(FUSE_GETXATTR, file, getxattr_body(name, bytes)).body, kListedValue);
  EXPECT_EQ(error_of(FUSE_GETXATTR, file, getxattr_body(name, bytes - 1)), ERANGE);
  EXPECT_EQ(error_of(FUSE_GETXATTR, file, getxattr_body("user.reshardfs.none", 99)), ENODATA);
  EXPECT_EQ(error_of(FUSE_GETXATTR, file, getxattr_body("user.reshardfs.large", 99)), E2BIG);
  EXPECT_EQ(error_of(FUSE_GETXATTR, file, getxattr_body("user.reshardfs.broken", 99)), EIO);
  EXPECT_EQ(error_of(FUSE_GETXATTR, file, getxattr_body("security.capability", 20)), ENODATA);
  EXPECT_EQ(error_of(FUSE_GETXATTR, file, getxattr_body("", 20)), ENODATA);
  EXPECT_EQ(error_of(FUSE_GETXATTR, 4711, getxattr_body(name, 20)), ESTALE);
  reply = kernel().call(FUSE_LISTXATTR, file, listxattr_body(0));
  EXPECT_EQ(as<fuse_getxattr_out>(reply.body).size, name.size() + 1);
  reply = kernel().call(FUSE_LISTXATTR, file, listxattr_body(0xffffffff));
  EXPECT_EQ(reply.body, name_body(name));
  const auto all_names = static_cast<std::uint32_t>(name.size()) + 1;
  EXPECT_EQ(kernel().call(FUSE_LISTXATTR, file, listxattr_body(all_names)).body, name_body(name));
  EXPECT_EQ(error_of(FUSE_LISTXATTR, file, listxattr_body(all_names - 1)), ERANGE);
  EXPECT_EQ(kernel().call(FUSE_LISTXATTR, kRootInode, listxattr_body(100)).body, "");
}

TEST_F(ProtocolRequests, LinksAndStatistics) {
  EXPECT_EQ(kernel().call(FUSE_READLINK, node("link")).body, "dir/5");
  EXPECT_EQ(error_of(FUSE_READLINK, node("dir")), EINVAL);
  EXPECT_EQ(error_of(FUSE_READLINK, 4711), ESTALE);
  const auto out = as<fuse_statfs_out>(kernel().call(FUSE_STATFS, kRootInode).body);
  EXPECT_EQ(out.st.namelen, 255U);
  EXPECT_EQ(out.st.bfree, 0U);
}

TEST_F(ProtocolRequests, WhatWouldChangeSomethingIsRefused) {
  const std::uint64_t dir = node("dir");
  const std::string two_names = name_body("new") + name_body("other");
  const std::map<std::uint32_t, std::string> writes = {
      {FUSE_SETATTR, bytes_of(fuse_setattr_in{})},
      {FUSE_MKNOD, bytes_of(fuse_mknod_in{}) + two_names},
      {FUSE_MKDIR, bytes_of(fuse_mkdir_in{}) + two_names},
      {FUSE_UNLINK, name_body("1")},
      {FUSE_RMDIR, name_body("1")},
      {FUSE_SYMLINK, two_names},
      {FUSE_RENAME, bytes_of(fuse_rename_in{}) + two_names},
      {FUSE_RENAME2, bytes_of(fuse_rename2_in{}) + two_names},
      {FUSE_LINK, bytes_of(fuse_link_in{}) + two_names},
      {FUSE_WRITE, bytes_of(fuse_write_in{}) + "bytes"},
      {FUSE_SETXATTR, bytes_of(fuse_setxattr_in{}) + two_names},
      {FUSE_REMOVEXATTR, two_names},
      {FUSE_CREATE, bytes_of(fuse_create_in{}) + two_names},
      {FUSE_FALLOCATE, bytes_of(fuse_fallocate_in{})},
  };
  for (const auto& [opcode, body] : writes) {
    EXPECT_EQ(error_of(opcode, dir, body), EROFS) << "opcode " << opcode;
    EXPECT_EQ(error_of(opcode, 4711, body), EROFS) << "opcode " << opcode;
  }
  EXPECT_EQ(error_of(FUSE_COPY_FILE_RANGE, dir, bytes_of(fuse_copy_file_range_in{})), ENOSYS);
}

TEST_F(ProtocolRequests, WhatIsNotKnownIsNotImplemented) {
  for (const std::uint32_t opcode :
       {7U, 19U, 53U, 60U, 99U, 4095U, 4097U, 0x7fffffffU, 0x80000000U, 0xffffffffU,
        static_cast<unsigned>(FUSE_ACCESS), static_cast<unsigned>(FUSE_FSYNC),
        static_cast<unsigned>(FUSE_FSYNCDIR), static_cast<unsigned>(FUSE_POLL),
        static_cast<unsigned>(FUSE_LSEEK), static_cast<unsigned>(FUSE_BMAP),
        static_cast<unsigned>(FUSE_IOCTL), static_cast<unsigned>(FUSE_GETLK)}) {
    EXPECT_EQ(error_of(opcode, kRootInode, std::string(64, '\0')), ENOSYS) << "opcode " << opcode;
  }
}

TEST_F(ProtocolRequests, ForgettingIsNotAnsweredAndForgetsNothing) {
  const std::uint64_t file = node("dir", "4");
  const std::uint64_t before = kernel().replies();
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    fuse_forget_in one{};
    one.nlookup = count;
    kernel().send(FUSE_FORGET, file, bytes_of(one));
    kernel().send(FUSE_FORGET, 4711, bytes_of(one));
    kernel().send(FUSE_FORGET, kRootInode, bytes_of(one));
    fuse_batch_forget_in many{};
    many.count = static_cast<std::uint32_t>(count);
    kernel().send(FUSE_BATCH_FORGET, 0, bytes_of(many) + std::string(32, '\xff'));
  }
  EXPECT_EQ(read(file, 0, 0, 100).body.size(), 100U);
  EXPECT_EQ(kernel().replies(), before + 1);
}

}  // namespace
}  // namespace reshardfs::testing_protocol
