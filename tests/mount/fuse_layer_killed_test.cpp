// SPDX-License-Identifier: Apache-2.0
/// Programs that are killed, or get a signal, while a source does not answer.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "test_mount.h"

namespace reshardfs::testing_mount {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Its attribute stalls like its bytes.
class StallingFile : public HookedFile {
 public:
  StallingFile(Shared& shared, std::uint64_t size)
      : HookedFile(size, [&shared](std::uint64_t) { stall(shared); }), shared_(shared) {}
  std::optional<std::string> attribute(std::string_view) const override {
    stall(shared_);
    return "x";
  }

 private:
  static void stall(Shared& shared) {
    ++shared.waiting;
    while (!shared.released) std::this_thread::sleep_for(2ms);
    --shared.waiting;
    ++shared.reads;
  }
  Shared& shared_;
};

class FuseKilled : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_FUSE();
    ServeOptions options;
    options.direct_io = true;
    mount = std::make_unique<TestMount>(
        [this](TreeBuilder& builder) {
          for (int i = 0; i < 40; ++i) {
            builder.add_file(std::to_string(i), std::make_shared<StallingFile>(*shared, 5000));
          }
          builder.add_file("plain", std::make_shared<PatternFile>(100000));
        },
        options);
    ASSERT_TRUE(mount->live());
  }
  void TearDown() override { shared->released = true; }

  fs::path at(const std::string& name) const { return *mount / name; }

  /// A process that does `what`, and ends with 0 if that says true.
  pid_t start(const std::function<bool()>& what) const {
    const pid_t process = ::fork();
    if (process == 0) std::_Exit(what() ? 0 : 1);
    return process;
  }
  pid_t start_reader(int number) const {
    return start([this, number] {
      const std::string content = read_file(at(std::to_string(number)));
      return content.size() == 5000 && is_pattern(content, 0);
    });
  }
  bool stalled(int count) const {
    return eventually([&] { return shared->waiting == count; });
  }
  /// The status of a process that has ended by then, or -1.
  static int status_of(pid_t process, std::chrono::milliseconds limit = 60s) {
    int status = -1;
    return eventually([&] { return ::waitpid(process, &status, WNOHANG) == process; }, limit)
               ? status
               : -1;
  }
  static bool is_killed_by(int status, int signal) {
    return status != -1 && WIFSIGNALED(status) && WTERMSIG(status) == signal;
  }

  SharedMemory shared;
  std::unique_ptr<TestMount> mount;
};

TEST_F(FuseKilled, AKilledReaderOfAStalledSourceIsGoneAtOnce) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    const pid_t reader = start_reader(signal);
    ASSERT_TRUE(stalled(1));
    ::kill(reader, signal);
    EXPECT_TRUE(is_killed_by(status_of(reader), signal)) << signal;
    // The late read ends, finds nobody, and harms nothing.
    EXPECT_EQ(shared->waiting, 1);
    shared->released = true;
    ASSERT_TRUE(stalled(0));
    shared->released = false;
  }
  shared->released = true;
  EXPECT_TRUE(is_pattern(read_file(at("0")), 0));
  EXPECT_TRUE(is_pattern(read_file(at("plain")), 0));
  mount->send(SIGTERM);
  EXPECT_EQ(mount->wait_for_exit(), 0);
}

TEST_F(FuseKilled, AKilledReaderWhoseReadIsQueuedIsGoneAtOnce) {
  std::vector<pid_t> readers;
  for (int i = 0; i < 30; ++i) readers.push_back(start_reader(i));
  ASSERT_TRUE(stalled(16));
  std::this_thread::sleep_for(100ms);  // for the last of them to be queued
  for (std::size_t i = 0; i < readers.size(); i += 2) ::kill(readers[i], SIGKILL);
  for (std::size_t i = 0; i < readers.size(); i += 2) {
    EXPECT_TRUE(is_killed_by(status_of(readers[i]), SIGKILL));
  }
  shared->released = true;
  for (std::size_t i = 1; i < readers.size(); i += 2) EXPECT_EQ(status_of(readers[i]), 0);
  EXPECT_TRUE(stalled(0));
  EXPECT_LT(shared->reads, 30) << "reads of the killed that had not begun are left out";
}

TEST_F(FuseKilled, AProgramThatHandlesASignalGetsItsBytes) {
  const pid_t reader = start([this] {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    const std::string content = read_file(at("1"));
    return content.size() == 5000 && is_pattern(content, 0);
  });
  ASSERT_TRUE(stalled(1));
  ::kill(reader, SIGUSR1);
  EXPECT_EQ(status_of(reader, 300ms), -1) << "it must still wait";
  shared->released = true;
  EXPECT_EQ(status_of(reader), 0);
}

TEST_F(FuseKilled, AProgramThatHandlesASignalAndIsKilledThenIsGoneSoon) {
  const pid_t reader = start([this] {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGINT, &action, nullptr);
    return read_file(at("1")).size() == 5000;
  });
  ASSERT_TRUE(stalled(1));
  ::kill(reader, SIGINT);
  EXPECT_EQ(status_of(reader, 300ms), -1) << "it must still wait";
  ::kill(reader, SIGKILL);
  EXPECT_TRUE(is_killed_by(status_of(reader), SIGKILL));
  EXPECT_EQ(shared->waiting, 1);
  shared->released = true;
  ASSERT_TRUE(stalled(0));
  EXPECT_TRUE(is_pattern(read_file(at("1")), 0));
  mount->send(SIGTERM);
  EXPECT_EQ(mount->wait_for_exit(), 0);
}

TEST_F(FuseKilled, AllThreadsOfAKilledProgramAreGone) {
  const pid_t reader = start([this] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([this, i] { read_file(at(std::to_string(i))); });
    }
    for (std::thread& thread : threads) thread.join();
    return true;
  });
  ASSERT_TRUE(stalled(4));
  ::kill(reader, SIGKILL);
  EXPECT_TRUE(is_killed_by(status_of(reader), SIGKILL));
}

TEST_F(FuseKilled, AProgramThatEndsTakesItsWaitingThreadsAlong) {
  const pid_t reader = start([this] {
    std::thread([this] { read_file(at("1")); }).detach();
    while (shared->waiting == 0) std::this_thread::sleep_for(1ms);
    return true;
  });
  EXPECT_EQ(status_of(reader), 0);
}

TEST_F(FuseKilled, AKilledAskerForAnAttributeIsGoneAtOnce) {
  const pid_t asker = start([this] {
    char byte = 0;
    return ::getxattr(at("1").c_str(), "user.reshardfs.sha256", &byte, 1) == 1;
  });
  ASSERT_TRUE(stalled(1));
  ::kill(asker, SIGKILL);
  EXPECT_TRUE(is_killed_by(status_of(asker), SIGKILL));
  shared->released = true;
  ASSERT_TRUE(stalled(0));
  char byte = 0;
  EXPECT_EQ(::getxattr(at("1").c_str(), "user.reshardfs.sha256", &byte, 1), 1);
}

TEST_F(FuseKilled, KillsThatRaceWithAnswersHarmNothing) {
  shared->released = true;
  const auto end = Clock::now() + 4s;
  std::thread toggle([&] {
    while (Clock::now() < end) {
      shared->released = false;
      std::this_thread::sleep_for(3ms);
      shared->released = true;
      std::this_thread::sleep_for(1ms);
    }
  });
  for (int i = 0; Clock::now() < end; ++i) {
    std::vector<pid_t> readers;
    for (int k = 0; k < 8; ++k) {
      readers.push_back(start([this, k] {
        for (;;) {
          const std::string content = read_file(at(std::to_string(k)));
          if (content.size() != 5000 || !is_pattern(content, 0)) return false;
        }
      }));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + i % 5));
    for (const pid_t reader : readers) ::kill(reader, SIGKILL);
    for (const pid_t reader : readers) EXPECT_TRUE(is_killed_by(status_of(reader), SIGKILL));
  }
  toggle.join();
  EXPECT_TRUE(is_pattern(read_file(at("plain")), 0));
  EXPECT_TRUE(stalled(0));
  mount->send(SIGTERM);
  EXPECT_EQ(mount->wait_for_exit(), 0);
}

}  // namespace
}  // namespace reshardfs::testing_mount
