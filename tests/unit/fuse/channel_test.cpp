// SPDX-License-Identifier: Apache-2.0
#include "fuse/channel.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fuse/operations.h"
#include "fuse/queue/killable_request.h"
#include "unit/fuse/fake_kernel.h"
#include "vfs/tree_source.h"

namespace reshardfs::test {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kOffered =
    FUSE_ASYNC_READ | FUSE_DO_READDIRPLUS | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_BIG_WRITES;

/// A mount whose session is connected through its channel.
struct Mount {
  explicit Mount(int device, const fuse_lowlevel_ops& its_operations = operations())
      : session(its_operations, &served) {
    channel.connect(session.get(), device);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  ~Mount() { served.storage.stop(); }

  Tree tree = TreeBuilder().build();
  FixedTree source{tree};
  MountOptions options;
  ServedTree served{source, options};
  BareSession session;
  Channel& channel = served.channel;
};

class ChannelTest : public testing::Test {
 protected:
  Negotiation agree(std::uint32_t flags = kOffered, std::uint32_t flags2 = 0) {
    kernel.ask(FUSE_INIT, 0, FakeKernel::init(flags, flags2));
    mount.session.process_one();
    EXPECT_EQ(kernel.answer().error, 0);
    return mount.channel.negotiation();
  }
  /// What a successor finds different from an agreement, of whose answer a field was set.
  template <typename Field>
  std::string difference(Negotiation before, std::size_t field, Field value) {
    std::memcpy(before.reply.data() + sizeof(fuse_out_header) + field, &value, sizeof value);
    Mount successor(kernel.device());
    return successor.channel.replay(successor.session.get(), before);
  }

  FakeKernel kernel;
  Mount mount{kernel.device()};
};

TEST_F(ChannelTest, KeepsTheAgreementAsTheKernelAndLibfuseWroteIt) {
  const std::string request = kernel.request(FUSE_INIT, 0, FakeKernel::init(kOffered));
  kernel.send(request);
  EXPECT_FALSE(mount.channel.negotiation().is_done());
  mount.session.process_one();
  const KernelAnswer answer = kernel.answer();
  const Negotiation agreed = mount.channel.negotiation();
  EXPECT_TRUE(agreed.is_done());
  EXPECT_EQ(agreed.request, request);
  EXPECT_EQ(agreed.reply, answer.whole);
}

TEST_F(ChannelTest, LaterRequestsDoNotChangeTheAgreement) {
  const Negotiation agreed = agree();
  const std::uint64_t unique = kernel.ask(FUSE_STATFS, kRootInode);
  mount.session.process_one();
  EXPECT_EQ(kernel.answer().unique, unique);
  EXPECT_EQ(mount.channel.negotiation().request, agreed.request);
  EXPECT_EQ(mount.channel.negotiation().reply, agreed.reply);
}

TEST_F(ChannelTest, ARequestBeforeTheAgreementIsNoneOfIt) {
  kernel.ask(FUSE_STATFS, kRootInode);
  mount.session.process_one();
  EXPECT_EQ(kernel.answer().error, EIO) << "libfuse wants INIT first";
  EXPECT_EQ(mount.channel.negotiation().request, "");
  EXPECT_FALSE(mount.channel.negotiation().is_done());
}

TEST_F(ChannelTest, WhatIsAnsweredIsNotInTheTable) {
  agree();
  EXPECT_TRUE(mount.channel.table().unanswered().empty());
  kernel.ask(FUSE_STATFS, kRootInode);
  mount.session.process_one();
  EXPECT_EQ(kernel.answer().error, 0);
  EXPECT_TRUE(mount.channel.table().unanswered().empty());
}

TEST_F(ChannelTest, DropsAnswersWhileItIsClosedAndKeepsTheirRequests) {
  agree();
  mount.channel.close();
  {
    const Channel::Pass pass(mount.channel);
    EXPECT_FALSE(pass.is_open());
  }
  kernel.ask(FUSE_STATFS, kRootInode);
  mount.session.process_one();
  EXPECT_FALSE(kernel.has_answer());
  EXPECT_EQ(mount.channel.table().unanswered().size(), 1U);
  mount.channel.open();
  const Channel::Pass pass(mount.channel);
  EXPECT_TRUE(pass.is_open());
  const std::uint64_t unique = kernel.ask(FUSE_STATFS, kRootInode);
  mount.session.process_one();
  EXPECT_EQ(kernel.answer().unique, unique);
}

TEST_F(ChannelTest, LibfuseHearsThatARequestWhoseAnswerIsDroppedNoLongerExists) {
  static int result = 0;
  fuse_lowlevel_ops own = operations();
  own.statfs = [](fuse_req_t request, fuse_ino_t) { result = fuse_reply_err(request, 0); };
  Mount closing(kernel.device(), own);
  kernel.ask(FUSE_INIT, 0, FakeKernel::init());
  closing.session.process_one();
  kernel.answer();
  closing.channel.close();
  kernel.ask(FUSE_STATFS, kRootInode);
  closing.session.process_one();
  EXPECT_EQ(result, -ENOENT);
}

TEST_F(ChannelTest, IsClosedWhenTheLastPassOfAThreadHasEnded) {
  auto outer = std::make_unique<Channel::Pass>(mount.channel);
  std::promise<pid_t> closes;
  std::future<void> closed = std::async(std::launch::async, [&] {
    closes.set_value(::gettid());
    mount.channel.close();
  });
  const pid_t closer = closes.get_future().get();
  const auto has_closed = [&closed] {
    return closed.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  const auto sleeps = [closer] {
    ProcText stat;
    return read_proc(closer, "stat", stat) &&
           std::string_view(stat.data()).find(") S ") != std::string_view::npos;
  };
  while (!has_closed() && !sleeps()) std::this_thread::yield();
  EXPECT_FALSE(has_closed());
  {
    const Channel::Pass inner(mount.channel);
    EXPECT_TRUE(inner.is_open());
  }
  EXPECT_FALSE(has_closed());
  outer.reset();
  closed.wait();
  EXPECT_FALSE(Channel::Pass(mount.channel).is_open());
}

TEST_F(ChannelTest, TheFirstAgreementCounts) {
  const Negotiation agreed = agree();
  kernel.ask(FUSE_INIT, 0, FakeKernel::init());
  mount.session.process_one();
  EXPECT_EQ(kernel.answer().error, EIO);
  EXPECT_EQ(mount.channel.negotiation().request, agreed.request);
  EXPECT_EQ(mount.channel.negotiation().reply, agreed.reply);
}

TEST_F(ChannelTest, ReportsThatADescriptorCannotBeUsed) {
  EXPECT_ANY_THROW(mount.channel.connect(mount.session.get(), -1));
}

TEST_F(ChannelTest, RepeatsAnAgreementWithoutTellingTheKernel) {
  const Negotiation before = agree();
  Mount successor(kernel.device());
  EXPECT_EQ(successor.channel.replay(successor.session.get(), before), "");
  EXPECT_FALSE(kernel.has_answer());
  EXPECT_EQ(successor.channel.negotiation().request, before.request);
  EXPECT_EQ(successor.channel.negotiation().reply, before.reply);
  // And goes on answering.
  const std::uint64_t unique = kernel.ask(FUSE_STATFS, kRootInode);
  successor.session.process_one();
  const KernelAnswer answer = kernel.answer();
  EXPECT_EQ(answer.unique, unique);
  EXPECT_EQ(answer.error, 0);
}

TEST_F(ChannelTest, RepeatsAnAgreementWithNewWords) {
  const Negotiation before = agree(kOffered | FUSE_INIT_EXT, ~std::uint32_t{0});
  Mount successor(kernel.device());
  EXPECT_EQ(successor.channel.replay(successor.session.get(), before), "");
}

TEST_F(ChannelTest, DoesWithoutFeaturesThatTheKernelWasNotPromised) {
  const Negotiation before = agree();
  const auto agreed = as<fuse_init_out>(before.reply.substr(sizeof(fuse_out_header)));
  ASSERT_NE(agreed.flags & FUSE_ASYNC_READ, 0U);
  EXPECT_EQ(
      difference(before, offsetof(fuse_init_out, flags), agreed.flags & ~unsigned{FUSE_ASYNC_READ}),
      "");
}

/// What libfuse is offered when an agreement is repeated.
TEST_F(ChannelTest, OffersLibfuseWhatWasAgreedOnAndWhatTheKernelOnlyTells) {
  static Channel* replaying = nullptr;
  static fuse_init_in offered;
  fuse_lowlevel_ops own = operations();
  own.init = [](void*, fuse_conn_info*) {
    offered = as<fuse_init_in>(replaying->negotiation().request.substr(sizeof(fuse_in_header)));
  };
  Negotiation before = agree();
  const std::string header = before.request.substr(0, sizeof(fuse_in_header));
  const auto agreed = as<fuse_init_out>(before.reply.substr(sizeof(fuse_out_header)));
  ASSERT_EQ(agreed.flags2, 0U);
  {
    before.request = header + FakeKernel::init(~0U, ~0U);
    Mount successor(kernel.device(), own);
    replaying = &successor.channel;
    successor.channel.replay(successor.session.get(), before);
    EXPECT_EQ(offered.flags, agreed.flags | FUSE_HAS_IOCTL_DIR | FUSE_INIT_EXT);
    EXPECT_EQ(offered.flags2, 0x88U) << "FUSE_HAS_EXPIRE_ONLY and FUSE_HAS_RESEND";
  }
  {
    // Kernels before Linux 5.17 send no more than this.
    before.request = header + FakeKernel::init(~0U).substr(0, offsetof(fuse_init_in, flags2));
    Mount successor(kernel.device(), own);
    replaying = &successor.channel;
    successor.channel.replay(successor.session.get(), before);
    EXPECT_EQ(offered.flags, agreed.flags | FUSE_HAS_IOCTL_DIR | FUSE_INIT_EXT);
  }
}

TEST_F(ChannelTest, FindsFeaturesThatItCannotKeep) {
  const Negotiation before = agree();
  const auto agreed = as<fuse_init_out>(before.reply.substr(sizeof(fuse_out_header)));
  const std::string promised = "the kernel was promised the features ";
  EXPECT_THAT(difference(before, offsetof(fuse_init_out, flags), agreed.flags | 1U << 31U),
              HasSubstr(promised));
  EXPECT_THAT(difference(before, offsetof(fuse_init_out, flags2), agreed.flags2 | 1U << 31U),
              HasSubstr(promised));
}

TEST_F(ChannelTest, FindsOtherLimitsThanThoseThatTheKernelWasPromised) {
  const Negotiation before = agree();
  const std::string sizes = "the kernel was promised requests of ";
  EXPECT_EQ(difference(before, offsetof(fuse_init_out, max_write), std::uint32_t{4096}),
            sizes + "4096 bytes, not of 1048576");
  EXPECT_THAT(difference(before, offsetof(fuse_init_out, max_pages), std::uint16_t{1}),
              HasSubstr(sizes));
  const std::string version = "the kernel was promised version ";
  EXPECT_THAT(difference(before, offsetof(fuse_init_out, minor), std::uint32_t{12}),
              HasSubstr(version + "12 of the protocol, not "));
  EXPECT_THAT(difference(before, offsetof(fuse_init_out, map_alignment), std::uint16_t{1}),
              HasSubstr(version));
}

TEST_F(ChannelTest, WishesMayDiffer) {
  const Negotiation before = agree();
  EXPECT_EQ(difference(before, offsetof(fuse_init_out, max_background), std::uint16_t{7}), "");
}

TEST_F(ChannelTest, RepeatsAnAgreementInASmallerFormOfTheProtocol) {
  // Without flags2, which old kernels do not send.
  const std::string body = FakeKernel::init(kOffered).substr(0, offsetof(fuse_init_in, flags2));
  kernel.ask(FUSE_INIT, 0, body);
  mount.session.process_one();
  kernel.answer();
  const Negotiation before = mount.channel.negotiation();
  Mount successor(kernel.device());
  EXPECT_EQ(successor.channel.replay(successor.session.get(), before), "");
  EXPECT_EQ(before.request.size(), sizeof(fuse_in_header) + body.size());
}

TEST_F(ChannelTest, FindsThatLibfuseRefusesTheKernelsVersion) {
  Negotiation before = agree();
  const std::uint32_t ancient = 6;
  std::memcpy(before.request.data() + sizeof(fuse_in_header) + offsetof(fuse_init_in, major),
              &ancient, sizeof ancient);
  Mount successor(kernel.device());
  EXPECT_EQ(successor.channel.replay(successor.session.get(), before),
            "the connection's parameters are refused");
}

}  // namespace
}  // namespace reshardfs::test
