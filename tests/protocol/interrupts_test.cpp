// SPDX-License-Identifier: Apache-2.0
/// INTERRUPT before, while and after the request that it names is answered. Only a killed program's
/// request is given up.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "protocol/protocol_test.h"

namespace reshardfs::testing_protocol {
namespace {

using namespace std::chrono_literals;
using testing_mount::eventually;
using testing_mount::is_pattern;

/// A process that can be killed.
class Victim {
 public:
  Victim() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::pause();
    ::_exit(0);
  }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  ~Victim() {
    kill();
    ::waitpid(pid_, nullptr, 0);
  }

  /// From then on SIGKILL is under way to it: one that has ended of it and has not been waited for
  /// looks like that, too.
  void kill() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  pid_t pid() const noexcept { return pid_; }

 private:
  pid_t pid_;
};

class ProtocolInterrupts : public testing::Test {
 protected:
  static constexpr std::uint32_t kBytes = 5000;

  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    killed.kill();
    ASSERT_TRUE(is_killed(killed.pid()));
    TreeBuilder builder;
    for (int i = 0; i < kFiles; ++i) {
      builder.add_file(std::to_string(i), testing_mount::stalling_file(*shared, kBytes));
    }
    tree = std::make_unique<Tree>(std::move(builder).build());
    source = std::make_unique<FixedTree>(*tree);
    session = std::make_unique<ProtocolSession>(*source);
    session->init();
    for (int i = 0; i < kFiles; ++i) {
      files.push_back(session->kernel().lookup(kRootInode, std::to_string(i)));
    }
  }
  void TearDown() override {
    shared->released = true;
    if (!session) return;
    FakeKernel& kernel = session->kernel();
    EXPECT_TRUE(kernel.settle()) << kernel.pending() << " requests have no reply";
    EXPECT_TRUE(session->stop());
    EXPECT_EQ(shared->waiting, 0);
    kernel.drain();
    EXPECT_THAT(kernel.problems(), testing::IsEmpty());
  }

  FakeKernel& kernel() { return session->kernel(); }
  std::uint64_t send_read(std::size_t file, pid_t caller) {
    return kernel().send(FUSE_READ, files[file], read_body(0, 0, kBytes), caller);
  }
  bool stalled(int count) {
    return eventually([this, count] { return shared->waiting == count; });
  }
  bool is_whole(const std::optional<Reply>& reply) {
    return reply && reply->error == 0 && reply->body.size() == kBytes && is_pattern(reply->body, 0);
  }

  static constexpr int kFiles = 40;
  const Victim killed;
  const testing_mount::SharedMemory shared;
  std::unique_ptr<Tree> tree;
  std::unique_ptr<FixedTree> source;
  std::unique_ptr<ProtocolSession> session;
  std::vector<std::uint64_t> files;
};

TEST_F(ProtocolInterrupts, AKilledReaderIsAnsweredWhileTheSourceIsStalled) {
  const std::uint64_t read = send_read(0, killed.pid());
  ASSERT_TRUE(stalled(1));
  kernel().interrupt(read, killed.pid());
  const auto reply = kernel().wait_for(read);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, EINTR);
  EXPECT_EQ(shared->waiting, 1) << "the source has not answered";
  shared->released = true;
  ASSERT_TRUE(stalled(0));
  EXPECT_TRUE(is_whole(kernel().wait_for(send_read(0, killed.pid()))));
}

TEST_F(ProtocolInterrupts, AKilledReaderIsAnsweredWhileItsReadIsQueued) {
  std::vector<std::uint64_t> reads;
  for (std::size_t i = 0; i < kFiles; ++i) {
    reads.push_back(send_read(i, i % 2 == 0 ? killed.pid() : ::getpid()));
  }
  ASSERT_TRUE(stalled(static_cast<int>(kWaitLimits[0].permits)));
  for (const std::uint64_t read : reads) kernel().interrupt(read, killed.pid());
  for (std::size_t i = 0; i < reads.size(); i += 2) {
    const auto reply = kernel().wait_for(reads[i]);
    ASSERT_TRUE(reply) << i;
    EXPECT_EQ(reply->error, EINTR);
  }
  shared->released = true;
  for (std::size_t i = 1; i < reads.size(); i += 2) {
    EXPECT_TRUE(is_whole(kernel().wait_for(reads[i]))) << "a program that lives gets its bytes";
  }
  ASSERT_TRUE(stalled(0));
  EXPECT_LT(shared->reads, kFiles) << "what is given up is not read";
}

TEST_F(ProtocolInterrupts, AKillAfterAnotherSignalIsFound) {
  // Of it the kernel says nothing: it has told of the first signal.
  const Victim reader;
  const Victim other;
  const std::uint64_t first = send_read(0, reader.pid());
  const std::uint64_t second = send_read(1, other.pid());
  ASSERT_TRUE(stalled(2));
  kernel().interrupt(first, reader.pid());
  kernel().interrupt(second, other.pid());
  EXPECT_FALSE(kernel().wait_for(first, 300ms)) << "it has not been killed";
  reader.kill();
  const auto reply = kernel().wait_for(first);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, EINTR);
  shared->released = true;
  EXPECT_TRUE(is_whole(kernel().wait_for(second))) << "a program that lives gets its bytes";
}

TEST_F(ProtocolInterrupts, BeforeItsRequest) {
  // The kernel may hand the two to two threads: then the second may be the first.
  for (const pid_t caller : {killed.pid(), ::getpid()}) {
    const std::uint64_t read = kernel().next_unique();
    kernel().interrupt(read, caller);
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(send_read(0, caller), read);
    const auto reply = kernel().wait_for(read, caller == killed.pid() ? 5000ms : 200ms);
    if (caller == killed.pid()) {
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->error, EINTR);
    } else {
      EXPECT_FALSE(reply) << "it must wait for its bytes";
      shared->released = true;
      EXPECT_TRUE(is_whole(kernel().wait_for(read)));
    }
  }
}

TEST_F(ProtocolInterrupts, AfterItsRequestOrOfNone) {
  shared->released = true;
  const std::uint64_t read = send_read(0, killed.pid());
  EXPECT_TRUE(is_whole(kernel().wait_for(read)));
  for (const std::uint64_t unique : {read, std::uint64_t{0}, ~std::uint64_t{1}, read + 1000}) {
    kernel().interrupt(unique, killed.pid());
  }
  for (std::size_t i = 0; i < 10; ++i) EXPECT_TRUE(is_whole(kernel().wait_for(send_read(i, 0))));
}

TEST_F(ProtocolInterrupts, TwiceIsOnce) {
  const std::uint64_t read = send_read(0, killed.pid());
  ASSERT_TRUE(stalled(1));
  for (int i = 0; i < 3; ++i) kernel().interrupt(read, killed.pid());
  const auto reply = kernel().wait_for(read);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, EINTR);
}

TEST_F(ProtocolInterrupts, ThatRaceWithAnswersHarmNothing) {
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  shared->released = true;
  int given_up = 0;
  int whole = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> reads;
    for (int i = 0; i < 20; ++i) {
      if (random() % 4 == 0) {
        kernel().interrupt(kernel().next_unique() + random() % 4 * 2, killed.pid());
      }
      reads.push_back(send_read(random() % files.size(), killed.pid()));
      if (random() % 2 == 0) kernel().interrupt(reads[random() % reads.size()], killed.pid());
    }
    for (const std::uint64_t read : reads) {
      const auto reply = kernel().wait_for(read);
      ASSERT_TRUE(reply);
      ++(reply->error == EINTR ? given_up : whole);
      ASSERT_TRUE(reply->error == EINTR || is_whole(reply));
    }
  }
  EXPECT_GT(given_up, 0);
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace reshardfs::testing_protocol
