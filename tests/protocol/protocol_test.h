// SPDX-License-Identifier: Apache-2.0
/// What the protocol tests have in common: a session of a TestTree whose INIT has been answered,
/// and the demand that at the end every request has had its one reply.
#pragma once

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "protocol/fake_kernel.h"
#include "protocol/protocol_session.h"
#include "protocol/test_tree.h"
#include "vfs/inode_number.h"

namespace reshardfs::testing_protocol {

class ProtocolTest : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    session = std::make_unique<ProtocolSession>(source);
    session->init();
  }
  void TearDown() override {
    if (!session) return;
    EXPECT_TRUE(kernel().settle()) << kernel().pending() << " requests have no reply";
    EXPECT_TRUE(session->stop());
    EXPECT_EQ(session->error(), 0);
    kernel().drain();
    EXPECT_THAT(kernel().problems(), testing::IsEmpty());
  }

  FakeKernel& kernel() { return session->kernel(); }
  std::uint64_t node(const std::string& directory, const std::string& name) {
    return kernel().lookup(kernel().lookup(kRootInode, directory), name);
  }
  std::uint64_t node(const std::string& name) { return kernel().lookup(kRootInode, name); }
  std::uint64_t open(std::uint64_t inode, std::uint32_t opcode = FUSE_OPEN) {
    const Reply reply = kernel().call(opcode, inode, open_body(0));
    EXPECT_EQ(reply.error, 0);
    return as<fuse_open_out>(reply.body).fh;
  }
  Reply read(std::uint64_t inode, std::uint64_t handle, std::uint64_t offset, std::uint32_t size) {
    return kernel().call(FUSE_READ, inode, read_body(handle, offset, size));
  }
  int error_of(std::uint32_t opcode, std::uint64_t inode, const std::string& body = {}) {
    return kernel().call(opcode, inode, body).error;
  }

  // A thread that has answered may need a moment to let go of what it has used.
  bool holds_snapshots(long count) {
    return testing_mount::eventually([&] { return source.held_snapshots() == count; });
  }
  bool holds_trees(long count) {
    return testing_mount::eventually([&] { return source.held_trees() == count; });
  }

  TestTree source;
  std::unique_ptr<ProtocolSession> session;
};

}  // namespace reshardfs::testing_protocol
