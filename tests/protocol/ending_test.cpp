// SPDX-License-Identifier: Apache-2.0
/// How a session ends, and that nothing is left of it.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "protocol/protocol_test.h"

namespace reshardfs::testing_protocol {
namespace {

using namespace std::chrono_literals;
using testing_mount::eventually;

/// How many threads there are before any of a session. With the first one of all, a sanitizer
/// starts a thread of its own.
std::size_t threads_at_first() {
  pid_t first = 0;
  std::thread([&first] { first = ::gettid(); }).join();
  // The system still lists a thread for a moment that has been waited for.
  const std::string listed = "/proc/self/task/" + std::to_string(first);
  EXPECT_TRUE(eventually([&] { return !testing_mount::fs::exists(listed); }));
  return thread_count();
}

class ProtocolEnding : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    threads = threads_at_first();
    session = std::make_unique<ProtocolSession>(source);
    session->init();
    EXPECT_EQ(session->next_event(), Event::kLive);
  }
  /// Whether the threads that answer requests end by themselves: none of them is told to. The one
  /// that looks after what waits ends with stop().
  bool all_threads_end() {
    return eventually([this] { return thread_count() <= threads + 1; });
  }

  std::size_t threads = 0;
  TestTree source;
  std::unique_ptr<ProtocolSession> session;
};

TEST_F(ProtocolEnding, AClosedDeviceEndsAllThreads) {
  session->kernel().lookup(kRootInode, "dir");
  EXPECT_GT(thread_count(), threads);
  session->kernel().close();
  EXPECT_EQ(session->next_event(), Event::kEnded);
  EXPECT_TRUE(all_threads_end());
  EXPECT_TRUE(session->stop());
  EXPECT_EQ(session->error(), 0);
}

TEST_F(ProtocolEnding, DestroyIsAnsweredAndThenTheDeviceCloses) {
  FakeKernel& kernel = session->kernel();
  EXPECT_EQ(kernel.call(FUSE_DESTROY, 0).error, 0);
  EXPECT_THAT(kernel.problems(), testing::IsEmpty());
  kernel.close();
  EXPECT_EQ(session->next_event(), Event::kEnded);
  EXPECT_TRUE(all_threads_end());
  EXPECT_TRUE(session->stop());
  EXPECT_EQ(session->error(), 0);
}

TEST_F(ProtocolEnding, AClosedDeviceEndsItAlsoWithRequestsUnderWay) {
  FakeKernel& kernel = session->kernel();
  const std::uint64_t file = kernel.lookup(kernel.lookup(kRootInode, "dir"), "5");
  for (int i = 0; i < 100; ++i) kernel.send(FUSE_READ, file, read_body(0, 0, 1U << 18U));
  kernel.close();
  EXPECT_TRUE(all_threads_end());
  EXPECT_TRUE(session->stop());
  EXPECT_TRUE(eventually([this] { return thread_count() == threads; }));
}

TEST_F(ProtocolEnding, ThreadsThatWaitForRequestsCanBeStopped) {
  EXPECT_TRUE(session->stop());
  EXPECT_TRUE(eventually([this] { return thread_count() == threads; }));
  EXPECT_EQ(session->error(), 0);
}

TEST_F(ProtocolEnding, WhatHasBeenTakenIsAnsweredBeforeTheThreadsStop) {
  FakeKernel& kernel = session->kernel();
  const std::uint64_t file = kernel.lookup(kernel.lookup(kRootInode, "dir"), "4");
  for (int i = 0; i < 50; ++i) {
    kernel.send(FUSE_READ, file, read_body(0, 0, 4096));
  }
  ASSERT_TRUE(kernel.settle());
  EXPECT_TRUE(session->stop());
  EXPECT_EQ(kernel.pending(), 0U);
  EXPECT_THAT(kernel.problems(), testing::IsEmpty());
}

TEST_F(ProtocolEnding, HalfAHeaderIsATroubleOfTheDevice) {
  session->kernel().send_raw(std::string(sizeof(fuse_in_header) - 1, '\1'));
  EXPECT_EQ(session->next_event(), Event::kEnded);
  EXPECT_TRUE(session->stop());
  EXPECT_EQ(session->error(), EIO);
}

TEST_F(ProtocolEnding, ALackOfMemoryIsNotTheEnd) {
  FakeKernel& kernel = session->kernel();
  const std::uint64_t file = kernel.lookup(kernel.lookup(kRootInode, "dir"), "4");
  failing_receives() = 3;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(kernel.call(FUSE_READ, file, read_body(0, 0, 100)).body.size(), 100U);
  }
  ASSERT_TRUE(eventually([] { return failing_receives() == 0; }));
  EXPECT_EQ(session->next_event(50ms), std::nullopt) << "a thread has ended";
  EXPECT_TRUE(session->stop());
  EXPECT_EQ(session->error(), 0);
  EXPECT_THAT(kernel.problems(), testing::IsEmpty());
}

/// As /dev/fuse answers a thread that takes a request while the mount goes away.
TEST_F(ProtocolEnding, AnAbortedReceiveIsTheEndAndNoTrouble) {
  receive_error() = ECONNABORTED;
  failing_receives() = 1;
  session->kernel().lookup(kRootInode, "dir");
  EXPECT_EQ(session->next_event(), Event::kEnded);
  session->kernel().close();
  EXPECT_TRUE(session->stop());
  EXPECT_EQ(session->error(), 0);
  receive_error() = ENOMEM;
}

TEST(ProtocolEndings, AStalledReadKeepsItsThreadAlone) {
  StalledTree stalled;
  const std::size_t threads = threads_at_first();
  ProtocolSession session(stalled.source);
  session.init();
  FakeKernel& kernel = session.kernel();
  const std::uint64_t read =
      kernel.send(FUSE_READ, kernel.lookup(kRootInode, "stalled"), read_body(0, 0, 100));
  ASSERT_TRUE(eventually([&] { return stalled.shared->waiting == 1; }));
  EXPECT_FALSE(session.stop(200ms)) << "it still uses the tree";
  // Beside the one that looks after what waits.
  EXPECT_TRUE(eventually([&] { return thread_count() == threads + 2; }));
  stalled.shared->released = true;
  EXPECT_TRUE(session.stop());
  EXPECT_TRUE(eventually([&] { return thread_count() == threads; }));
  EXPECT_EQ(kernel.wait_for(read)->body.size(), 100U) << "it is answered even then";
  EXPECT_THAT(kernel.problems(), testing::IsEmpty());
}

TEST(ProtocolEndings, SessionsLeaveNoDescriptors) {
  const auto descriptors = [] {
    return std::distance(testing_mount::fs::directory_iterator("/proc/self/fd"), {});
  };
  TestTree source;
  const auto before = descriptors();
  for (int i = 0; i < 20; ++i) {
    ProtocolSession session(source);
    session.init();
    session.kernel().lookup(kRootInode, "dir");
  }
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace reshardfs::testing_protocol
