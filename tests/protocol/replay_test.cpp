// SPDX-License-Identifier: Apache-2.0
/// A process that goes on with a mount agrees with the kernel on what another process has agreed
/// on, without asking it.
#include <linux/fuse.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "fuse/channel.h"
#include "fuse/served_tree.h"
#include "fuse/session.h"
#include "protocol/fake_kernel.h"
#include "vfs/tree_source.h"

namespace reshardfs::testing_protocol {
namespace {

constexpr std::uint64_t kUnique = 2;

/// FUSE_INIT as a kernel sends it that has these features.
std::string init_request(std::uint32_t flags, std::uint32_t flags2) {
  fuse_init_in in{};
  in.major = FUSE_KERNEL_VERSION;
  in.minor = FUSE_KERNEL_MINOR_VERSION;
  in.max_readahead = 128U << 10U;
  in.flags = flags | (flags2 != 0 ? FUSE_INIT_EXT : 0);
  in.flags2 = flags2;
  fuse_in_header header{};
  header.len = sizeof header + sizeof in;
  header.opcode = FUSE_INIT;
  header.unique = kUnique;
  return bytes_of(header) + bytes_of(in);
}

/// A process that serves a mount: the session with all that answers INIT.
class Process {
 public:
  Process() : source_(tree_), served_(source_, options_), session_(options_, served_) {}

  Session& session() { return session_; }
  Channel& channel() { return served_.channel; }

  /// Answers INIT. @return what the kernel gets.
  std::string answer(std::string request) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    channel().connect(session_.get(), ends[1]);
    EXPECT_GT(::send(ends[0], request.data(), request.size(), 0), 0);
    fuse_buf buffer{};
    EXPECT_EQ(fuse_session_receive_buf(session_.get(), &buffer), static_cast<int>(request.size()));
    fuse_session_process_buf(session_.get(), &buffer);
    std::free(buffer.mem);
    std::string reply(4096, '\0');
    const ssize_t got = ::recv(ends[0], reply.data(), reply.size(), MSG_DONTWAIT);
    reply.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    ::close(ends[0]);
    return reply;
  }

 private:
  Tree tree_ = TreeBuilder().build();
  FixedTree source_;
  MountOptions options_;
  ServedTree served_;
  Session session_;
};

/// What the kernel was promised by one process, and what another one would promise.
Negotiation agree(std::uint32_t flags, std::uint32_t flags2) {
  Process first;
  const std::string reply = first.answer(init_request(flags, flags2));
  EXPECT_GT(reply.size(), sizeof(fuse_out_header));
  EXPECT_EQ(first.channel().negotiation().reply, reply);
  EXPECT_EQ(first.channel().negotiation().request, init_request(flags, flags2));
  return first.channel().negotiation();
}

void expect_agreement(std::uint32_t flags, std::uint32_t flags2) {
  SCOPED_TRACE("flags " + std::to_string(flags) + ", " + std::to_string(flags2));
  const Negotiation before = agree(flags, flags2);
  Process second;
  EXPECT_EQ(second.session().replay(before), "");
  EXPECT_EQ(second.channel().negotiation().reply, before.reply);
}

TEST(ProtocolReplay, AgreesOnEachFeatureThatKernelsHave) {
  for (unsigned bit = 0; bit < 31; ++bit) {
    // Without FUSE_MAX_PAGES requests are smaller, with it larger: both.
    expect_agreement(1U << bit, 0);
    expect_agreement(1U << bit | FUSE_MAX_PAGES | FUSE_BIG_WRITES, 0);
  }
  for (unsigned bit = 0; bit < 32; ++bit) expect_agreement(FUSE_MAX_PAGES, 1U << bit);
}

TEST(ProtocolReplay, AgreesOnAllFeaturesTogether) {
  expect_agreement(~0U & ~static_cast<std::uint32_t>(FUSE_INIT_RESERVED), ~0U);
  expect_agreement(0, 0);
}

TEST(ProtocolReplay, ANewFeatureStaysOffForAMountThatBeganWithoutIt) {
  // The first process has not agreed to READDIRPLUS, which the second one would like.
  Negotiation before = agree(FUSE_MAX_PAGES | FUSE_BIG_WRITES, 0);
  before.request = init_request(FUSE_MAX_PAGES | FUSE_BIG_WRITES | FUSE_DO_READDIRPLUS, 0);
  Process second;
  EXPECT_EQ(second.session().replay(before), "");
}

TEST(ProtocolReplay, RefusesAFeatureThatItLacks) {
  Negotiation before = agree(FUSE_MAX_PAGES | FUSE_BIG_WRITES, 0);
  fuse_init_out promised{};
  std::memcpy(&promised, before.reply.data() + sizeof(fuse_out_header), sizeof promised);
  promised.flags |= FUSE_WRITEBACK_CACHE;
  std::memcpy(before.reply.data() + sizeof(fuse_out_header), &promised, sizeof promised);
  before.request = init_request(FUSE_MAX_PAGES | FUSE_BIG_WRITES | FUSE_WRITEBACK_CACHE, 0);
  Process second;
  EXPECT_NE(second.session().replay(before).find("features"), std::string::npos);
}

TEST(ProtocolReplay, RefusesRequestsOfAnotherSize) {
  Negotiation before = agree(FUSE_MAX_PAGES | FUSE_BIG_WRITES, 0);
  fuse_init_out promised{};
  std::memcpy(&promised, before.reply.data() + sizeof(fuse_out_header), sizeof promised);
  promised.max_write *= 2;
  std::memcpy(before.reply.data() + sizeof(fuse_out_header), &promised, sizeof promised);
  Process second;
  EXPECT_NE(second.session().replay(before).find("bytes"), std::string::npos);
}

}  // namespace
}  // namespace reshardfs::testing_protocol
