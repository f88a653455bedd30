// SPDX-License-Identifier: Apache-2.0
/// Requests that no kernel would send. Whatever they are answered with, it is one answer, and the
/// session goes on.
#include <random>

#include "protocol/protocol_test.h"

namespace reshardfs::testing_protocol {
namespace {

class ProtocolMalformed : public ProtocolTest {
 protected:
  /// Whether the session answers what it should.
  void expect_sound() {
    const std::uint64_t file = node("dir", "4");
    const Reply reply = read(file, 0, 7, 5000);
    EXPECT_EQ(reply.body.size(), 5000U);
    EXPECT_TRUE(testing_mount::is_pattern(reply.body, 7));
  }
};

/// INIT would be answered once more, DESTROY ends the session, and NOTIFY_REPLY is no request.
bool is_left_out(std::uint32_t opcode) {
  return opcode == FUSE_DESTROY || opcode == FUSE_NOTIFY_REPLY;
}

TEST_F(ProtocolMalformed, EachRequestWithoutItsBody) {
  for (std::uint32_t opcode = 0; opcode < 70; ++opcode) {
    if (is_left_out(opcode)) continue;
    for (const std::uint64_t inode : {std::uint64_t{0}, kRootInode, ~std::uint64_t{0}}) {
      for (const std::size_t bytes : {0U, 1U, 7U, 8U}) {
        kernel().send(opcode, inode, std::string(bytes, '\xff'));
      }
    }
    ASSERT_TRUE(kernel().settle()) << "opcode " << opcode;
  }
  expect_sound();
}

TEST_F(ProtocolMalformed, NamesWithoutTheirEnd) {
  for (const std::size_t length : {1U, 255U, 256U, 4096U, 65536U, 100000U}) {
    for (const std::uint32_t opcode :
         {FUSE_LOOKUP, FUSE_UNLINK, FUSE_RMDIR, FUSE_SYMLINK, FUSE_GETXATTR, FUSE_RENAME,
          FUSE_REMOVEXATTR, FUSE_SETXATTR, FUSE_MKDIR, FUSE_CREATE, FUSE_LINK}) {
      kernel().send(opcode, kRootInode, std::string(length, 'n'));
      ASSERT_TRUE(kernel().settle()) << "opcode " << opcode << ", length " << length;
    }
  }
  expect_sound();
}

TEST_F(ProtocolMalformed, NamesOfAnyKind) {
  for (const std::string name : {"", ".", "..", "/", "dir/4", "\x1b[2J", "\xff\xfe", "\n"}) {
    const Reply reply = kernel().call(FUSE_LOOKUP, kRootInode, name_body(name));
    EXPECT_EQ(as<fuse_entry_out>(reply.body).nodeid, 0U) << "there is no such child";
  }
  expect_sound();
}

TEST_F(ProtocolMalformed, AbsurdSizesNeedNoRoom) {
  const std::uint64_t file = node("dir", "5");
  EXPECT_EQ(read(file, 0, 0, 0xffffffff).error, EINVAL);
  EXPECT_EQ(read(file, 0, 0, kAbsurdBytes + 1).error, EINVAL);
  EXPECT_EQ(read(file, 0, 0, kAbsurdBytes).body.size(), kFileBytes[5]);
  EXPECT_EQ(read(file, 0, 0, 2U << 20U).body.size(), 2U << 20U) << "never less than there is";
  expect_sound();
}

TEST_F(ProtocolMalformed, HeadersThatLieAboutTheLength) {
  for (const std::uint32_t length : {0U, 1U, 39U, 41U, 4096U, 0xffffffffU}) {
    fuse_in_header header{};
    header.len = length;
    header.opcode = FUSE_FORGET;  // is not answered, so that nobody waits for it
    header.nodeid = kRootInode;
    kernel().send_raw(bytes_of(header));
    kernel().send_raw(bytes_of(header) + bytes_of(fuse_forget_in{.nlookup = 1}));
  }
  expect_sound();
}

TEST_F(ProtocolMalformed, RandomBodies) {
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::uint64_t> nodes = {0,
                                            kRootInode,
                                            node("dir"),
                                            node("dir", "4"),
                                            node("changing"),
                                            node("status"),
                                            node("link"),
                                            ~std::uint64_t{0}};
  for (int i = 0; i < 20000; ++i) {
    const auto opcode = static_cast<std::uint32_t>(random() % 60);
    if (is_left_out(opcode)) continue;
    std::string body(random() % 120, '\0');
    for (char& byte : body) {
      // Many zeros: otherwise no number would be a small one.
      if (random() % 3 == 0) byte = static_cast<char>(random());
    }
    kernel().send(opcode, nodes[random() % nodes.size()], body);
    if (kernel().pending() > 40) {
      ASSERT_TRUE(kernel().settle());
    }
  }
  ASSERT_TRUE(kernel().settle());
  expect_sound();
}

}  // namespace
}  // namespace reshardfs::testing_protocol
