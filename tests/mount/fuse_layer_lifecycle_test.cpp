// SPDX-License-Identifier: Apache-2.0
/// How a mount begins, ends, and lives with sources that do not answer.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/posix/mount_table.h"
#include "fuse/mounting/mountpoint.h"
#include "fuse/mounting/unmount.h"
#include "test_mount.h"

namespace reshardfs::testing_mount {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr uid_t kNobody = 65534;

void fill_plain(TreeBuilder& builder) {
  builder.add_file("rank_0/a", std::make_shared<PatternFile>(100000));
  builder.add_directory("rank_1");
}

class FuseLifecycle : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_FUSE(); }
};

TEST_F(FuseLifecycle, EverySignalUnmountsAndIsSuccess) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    TestMount mount(fill_plain);
    ASSERT_TRUE(mount.live());
    EXPECT_TRUE(mount.is_mounted());
    mount.send(signal);
    EXPECT_EQ(mount.wait_for_exit(), 0) << signal;
    EXPECT_FALSE(mount.is_mounted()) << signal;
  }
}

TEST_F(FuseLifecycle, ASignalRightAfterTheMountIsLiveIsNotLost) {
  for (int i = 0; i < 30; ++i) {
    TestMount mount(fill_plain);
    ASSERT_TRUE(mount.live());
    mount.send(SIGTERM);
    ASSERT_EQ(mount.wait_for_exit(), 0);
    ASSERT_FALSE(mount.is_mounted());
  }
}

TEST_F(FuseLifecycle, UnmountingFromOutsideEndsTheProcess) {
  TestMount mount(fill_plain);
  ASSERT_TRUE(mount.live());
  EXPECT_TRUE(is_pattern(read_file(mount / "rank_0/a"), 0));
  ASSERT_EQ(::umount2(mount.path().c_str(), 0), 0);
  EXPECT_EQ(mount.wait_for_exit(), 0);
}

TEST_F(FuseLifecycle, AnAbortedConnectionLeavesNoDeadMount) {
  TestMount mount(fill_plain);
  ASSERT_TRUE(mount.live());
  const auto entry = mount_at(mount.path());
  ASSERT_TRUE(entry);
  const std::string minor = entry->device.substr(entry->device.find(':') + 1);
  std::ofstream abort_file("/sys/fs/fuse/connections/" + minor + "/abort");
  if (!abort_file) GTEST_SKIP() << "fusectl is not mounted";
  abort_file << 1 << std::flush;
  EXPECT_EQ(mount.wait_for_exit(), 0);
  EXPECT_FALSE(mount.is_mounted());
}

TEST_F(FuseLifecycle, AMountpointMayBeNamedThroughALink) {
  TemporaryDirectory place;
  const fs::path link = place.path().native() + "-link";
  fs::create_directory_symlink(place.path(), link);
  ServeOptions options;
  options.mountpoint = link;
  TestMount mount(fill_plain, options);
  ASSERT_TRUE(mount.live());
  EXPECT_EQ(fs::file_size(place.path() / "rank_0/a"), 100000U);
  unmount(link);
  EXPECT_EQ(mount.wait_for_exit(), 0);
  fs::remove(link);
}

TEST_F(FuseLifecycle, ATaskThatFailsWhenLiveUndoesTheMount) {
  ServeOptions options;
  TestMount mount(fill_plain, options, 0, [] { throw Error(ErrorKind::kIo, "no pid file"); });
  EXPECT_FALSE(mount.live());
  EXPECT_EQ(mount.wait_for_exit(), 3);
  EXPECT_FALSE(mount.is_mounted());
}

TEST_F(FuseLifecycle, ATaskThatFailsWhileAReadIsStalledIsAFailureToo) {
  const SharedMemory shared;
  TemporaryDirectory place;
  ServeOptions options;
  options.mountpoint = place.path();
  const std::string reader = "cat '" + (place.path() / "stalled").native() + "' &";
  const auto fail = [&] {
    if (std::system(reader.c_str()) != 0) std::_Exit(97);
    if (!eventually([&] { return shared->waiting == 1; })) std::_Exit(96);
    throw Error(ErrorKind::kIo, "no pid file");
  };
  TestMount mount(
      [&](TreeBuilder& builder) { builder.add_file("stalled", stalling_file(*shared, 100)); },
      options, 0, fail);
  EXPECT_FALSE(mount.live());
  EXPECT_EQ(mount.wait_for_exit(), 3) << "threads that cannot be ended hide no failure";
  EXPECT_FALSE(mount_at(place.path()));
}

TEST_F(FuseLifecycle, UnmountRefusesABusyMountAndThenUnmountsIt) {
  TestMount mount(fill_plain);
  ASSERT_TRUE(mount.live());
  const int fd = ::open((mount / "rank_0/a").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  try {
    unmount(mount.path());
    ADD_FAILURE() << "a busy mount was unmounted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_EQ(error.os_error(), EBUSY);
    EXPECT_NE(std::string(error.what()).find("fuser -vm"), std::string::npos) << error.what();
  }
  ::close(fd);
  unmount(mount.path() / "");  // a slash at the end, as shells complete it
  EXPECT_FALSE(mount.is_mounted());
  EXPECT_EQ(mount.wait_for_exit(), 0);
  EXPECT_THROW(unmount(mount.path()), Error);
}

TEST_F(FuseLifecycle, ADeadMountIsRecognizedAndCanBeUnmounted) {
  TestMount mount(fill_plain);
  ASSERT_TRUE(mount.live());
  mount.send(SIGKILL);
  EXPECT_EQ(mount.wait_for_exit(), 128 + SIGKILL);
  try {
    check_mountpoint(mount.path(), "/usr", false);
    ADD_FAILURE() << "a dead mount was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("fusermount3 -u"), std::string::npos) << error.what();
  }
  unmount(mount.path());
  EXPECT_FALSE(mount.is_mounted());
}

TEST_F(FuseLifecycle, ALiveMountIsNoMountpointForAnother) {
  TestMount mount(fill_plain);
  ASSERT_TRUE(mount.live());
  EXPECT_THROW(check_mountpoint(mount.path(), "/usr", false), Error);
  EXPECT_THROW(check_mountpoint("/usr/share", mount / "rank_0", false), Error);  // not empty
  TemporaryDirectory other;
  check_mountpoint(other.path(), mount / "rank_0", false);  // a mount of a mount
}

TEST_F(FuseLifecycle, AnotherMountShowsTheSameInodeNumbers) {
  const auto inode_of_a = [] {
    TestMount mount(fill_plain);
    struct stat stat {};
    EXPECT_EQ(::stat((mount / "rank_0/a").c_str(), &stat), 0);
    return stat.st_ino;
  };
  const ino_t first = inode_of_a();
  EXPECT_EQ(inode_of_a(), first);
}

TEST_F(FuseLifecycle, AMountThatFailsSaysSo) {
  ServeOptions options;
  options.fuse_options = {"no_such_word"};
  TestMount unknown_word(fill_plain, options);
  EXPECT_FALSE(unknown_word.live());
  EXPECT_EQ(unknown_word.wait_for_exit(), 3);
}

// --- sources that do not answer ----------------------------------------------------------------

void fill_stalling(TreeBuilder& builder, Shared& shared) {
  for (int i = 0; i < 40; ++i) {
    builder.add_file("slow/" + std::to_string(i), stalling_file(shared, 5000));
  }
  fill_plain(builder);
}

class FuseStalled : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { SKIP_WITHOUT_FUSE(); }

  ServeOptions options() const {
    ServeOptions options;
    options.direct_io = GetParam();
    return options;
  }

  SharedMemory shared;
};

INSTANTIATE_TEST_SUITE_P(PageCacheAndDirect, FuseStalled, testing::Bool());

/// A mount with 40 readers, as many of which as possible wait for their source.
class StalledMount {
 public:
  StalledMount(Shared& shared, const ServeOptions& options)
      : mount([&shared](TreeBuilder& builder) { fill_stalling(builder, shared); }, options) {
    if (!mount.live()) throw std::runtime_error("the mount is not live");
    for (int i = 0; i < 40; ++i) {
      readers_.emplace_back([this, i] {
        const std::string content = read_file(mount / ("slow/" + std::to_string(i)));
        const bool is_right = content.size() == 5000 && is_pattern(content, 0);
        ++(is_right ? right : failed);
      });
    }
    EXPECT_TRUE(eventually([&shared] { return shared.waiting >= 16; }));
    std::this_thread::sleep_for(50ms);
  }
  /// Waits until all have their bytes, or an error.
  void join() {
    for (std::thread& reader : readers_) reader.join();
  }

  TestMount mount;
  std::atomic<int> right = 0;
  std::atomic<int> failed = 0;

 private:
  std::vector<std::thread> readers_;
};

TEST_P(FuseStalled, MetadataDoesNotWaitForStorage) {
  StalledMount stalled(*shared, options());
  EXPECT_EQ(shared->waiting, 16);  // the others are queued

  for (int i = 0; i < 100; ++i) {
    // Names that the kernel has not in its caches, so that each is a request.
    struct stat stat {};
    EXPECT_EQ(::stat((stalled.mount / ("rank_1/absent" + std::to_string(i))).c_str(), &stat), -1);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(stalled.mount / "slow"), {}), 40);
  EXPECT_EQ(shared->waiting, 16) << "and the reads have waited all the time";

  shared->released = true;
  stalled.join();
  EXPECT_EQ(stalled.right, 40);
  EXPECT_EQ(stalled.failed, 0);
}

TEST_P(FuseStalled, ASignalEndsTheProcessAndTheReadersGetAnError) {
  StalledMount stalled(*shared, options());
  const auto start = Clock::now();
  stalled.mount.send(SIGTERM);
  stalled.join();
  EXPECT_LT(Clock::now() - start, 30s);
  EXPECT_EQ(stalled.failed, 40);
  EXPECT_EQ(stalled.mount.wait_for_exit(), 0);
  EXPECT_FALSE(stalled.mount.is_mounted());
}

TEST_P(FuseStalled, ASecondSignalDoesNotWait) {
  // After one signal the mount gives its reads two seconds. A busy machine may take as long without
  // that, but not each time.
  auto shortest = Clock::duration::max();
  for (int round = 0; round < 5 && shortest >= 1900ms; ++round) {
    shared->waiting = 0;
    StalledMount stalled(*shared, options());
    const auto start = Clock::now();
    stalled.mount.send(SIGTERM);
    std::this_thread::sleep_for(100ms);
    stalled.mount.send(SIGTERM);
    stalled.join();
    shortest = std::min(shortest, Clock::now() - start);
    EXPECT_EQ(stalled.failed, 40);
    EXPECT_EQ(stalled.mount.wait_for_exit(), 0);
    EXPECT_FALSE(stalled.mount.is_mounted());
  }
  EXPECT_LT(shortest, 1900ms);
}

TEST_P(FuseStalled, ReadsUnderWayAreFinishedBeforeTheEnd) {
  StalledMount stalled(*shared, options());
  stalled.mount.send(SIGTERM);
  std::this_thread::sleep_for(200ms);
  shared->released = true;
  EXPECT_EQ(stalled.mount.wait_for_exit(), 0);
  stalled.join();
  // With the page cache a reader may need a second request for its file, which comes too late.
  EXPECT_GE(stalled.right, GetParam() ? 16 : 1);
  EXPECT_EQ(stalled.right + stalled.failed, 40);
}

TEST_P(FuseStalled, AKilledReaderWhoseReadIsQueuedGetsNothing) {
  StalledMount stalled(*shared, options());
  const pid_t reader = ::fork();
  if (reader == 0) {
    read_file(stalled.mount / "slow/39");
    std::_Exit(0);
  }
  std::this_thread::sleep_for(100ms);
  ::kill(reader, SIGKILL);
  std::this_thread::sleep_for(100ms);
  shared->released = true;
  int status = 0;
  EXPECT_TRUE(eventually([&] { return ::waitpid(reader, &status, WNOHANG) == reader; }));
  stalled.join();
  EXPECT_EQ(stalled.right, 40);
}

TEST_F(FuseLifecycle, SignalsUnderLoadLeaveNoReaderWaiting) {
  for (int round = 0; round < 5; ++round) {
    TestMount mount([](TreeBuilder& builder) {
      for (int i = 0; i < 8; ++i) {
        builder.add_file(std::to_string(i), std::make_shared<PatternFile>(64 << 20));
      }
    });
    ASSERT_TRUE(mount.live());
    std::atomic<int> wrong = 0;
    std::vector<std::thread> readers;
    for (int i = 0; i < 8; ++i) {
      readers.emplace_back([&, i] {
        const std::string content = read_file(mount / std::to_string(i));
        if (!is_pattern(content, 0)) ++wrong;  // fewer bytes are right, other bytes are not
      });
    }
    std::this_thread::sleep_for(30ms);
    const auto start = Clock::now();
    mount.send(SIGTERM);
    EXPECT_EQ(mount.wait_for_exit(), 0);
    for (std::thread& reader : readers) reader.join();
    EXPECT_LT(Clock::now() - start, 30s);
    EXPECT_FALSE(mount.is_mounted());
    EXPECT_EQ(wrong, 0);
  }
}

// --- as an ordinary user -----------------------------------------------------------------------

bool nobody_can_open_fuse() {
  struct stat stat {};
  return ::stat("/dev/fuse", &stat) == 0 && (stat.st_mode & 0006) == 0006;
}

TEST_F(FuseLifecycle, AnOrdinaryUserMountsThroughFusermount) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  if (!nobody_can_open_fuse()) GTEST_SKIP() << "/dev/fuse is not open to everyone";
  ServeOptions options;
  options.source_name = "/data/a,b\\c";
  TestMount mount(fill_plain, options, kNobody);
  ASSERT_TRUE(mount.live());
  struct stat stat {};
  EXPECT_EQ(::stat((mount / "rank_0/a").c_str(), &stat), -1);
  EXPECT_EQ(errno, EACCES) << "without allow_other not even root may look";

  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresgid(kNobody, kNobody, kNobody) != 0 ||
        ::setresuid(kNobody, kNobody, kNobody) != 0) {
      std::_Exit(1);
    }
    if (!is_pattern(read_file(mount / "rank_0/a"), 0)) std::_Exit(2);
    if (::open((mount / "rank_0/a").c_str(), O_RDWR) != -1 || errno != EROFS) std::_Exit(3);
    try {
      unmount(mount.path());
    } catch (const Error&) {
      std::_Exit(4);
    }
    std::_Exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "step " << WEXITSTATUS(status);
  EXPECT_EQ(mount.wait_for_exit(), 0);
  EXPECT_FALSE(mount.is_mounted());
}

TEST_F(FuseLifecycle, AnOrdinaryUsersMountEndsWithASignal) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  if (!nobody_can_open_fuse()) GTEST_SKIP() << "/dev/fuse is not open to everyone";
  TestMount mount(fill_plain, {}, kNobody);
  ASSERT_TRUE(mount.live());
  mount.send(SIGTERM);
  EXPECT_EQ(mount.wait_for_exit(), 0);
  EXPECT_FALSE(mount.is_mounted());
}

}  // namespace
}  // namespace reshardfs::testing_mount
