// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/unmount.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix/read_write.h"
#include "support/errors.h"
#include "unit/fuse/own_mounts.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::expect_error;
using test::in_child;
using test::refuse_call;
using test::UnservedMount;
using testing::HasSubstr;
using testing::Not;

class Unmounting : public test::OwnMounts {
 protected:
  /// What fusermount3 is in a child: a script, which keeps the words that it was given.
  void play_fusermount(const std::string& script) const {
    const fs::path program = directory("bin") / "fusermount3";
    std::ofstream(program) << "#!/bin/sh\nprintf '%s\\n' \"$@\" > " << words_.native() << '\n'
                           << script << '\n';
    ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
    ASSERT_EQ(::setenv("PATH", (program.parent_path().string() + ":/usr/bin:/bin").c_str(), 1), 0);
  }
  /// Those of the last run.
  std::string words() const { return text_of_file(words_); }
  /// In a child: umount2(2) leaves the mount to fusermount3, as for an ordinary user.
  static void be_an_ordinary_user() { refuse_call(SYS_umount2, EPERM); }

  static std::string what_unmounting_says(const fs::path& place) {
    try {
      unmount(place);
    } catch (const Error& error) {
      return error.what();
    }
    return "unmounted";
  }

  const fs::path words_ = root_ / "words";
  const fs::path place_ = directory("mnt");
};

TEST_F(Unmounting, RunsFusermountWithoutAShell) {
  in_child([&] {
    play_fusermount("echo said >&2; exit 3");
    const CommandResult result = run_fusermount({"-u", "a b; $HOME"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.messages, "said\n");
    EXPECT_EQ(words(), "-u\na b; $HOME\n");
    play_fusermount("kill -KILL $$");
    EXPECT_EQ(run_fusermount({}).exit_code, 128 + SIGKILL);
    ::setenv("PATH", place_.c_str(), 1);
    expect_error(ErrorKind::kIo, {"fusermount3", "No such file", "install the package fuse3"},
                 [] { run_fusermount({}); });
  });
}

TEST_F(Unmounting, TakesAMountAwayByItselfOrByFusermount) {
  inside([&] {
    const UnservedMount mount(place_);
    const Descriptor used(::open(place_.c_str(), O_PATH | O_CLOEXEC));
    play_fusermount("exit 0");
    EXPECT_TRUE(detach_mount(place_));
    EXPECT_FALSE(is_mounted(place_));
    EXPECT_FALSE(fs::exists(words_)) << "it took no other program";
    EXPECT_TRUE(detach_mount(place_)) << "fusermount3 says so";
    EXPECT_EQ(words(), "-u\n-z\n--\n" + place_.string() + "\n");
    play_fusermount("exit 1");
    EXPECT_FALSE(detach_mount(place_));
  });
}

TEST_F(Unmounting, ReturnsWhatWasMounted) {
  inside([&] {
    const UnservedMount below(place_, "/below");
    const UnservedMount mount(place_);
    const MountEntry was = mount.entry();
    const MountEntry unmounted = unmount(place_ / "");
    EXPECT_EQ(unmounted.id, was.id);
    EXPECT_EQ(unmounted.source, "/source");
    EXPECT_EQ(below.entry().source, "/below");
  });
}

TEST_F(Unmounting, SaysWhatIsAtThePathInstead) {
  inside([&] {
    mount_memory(place_);
    expect_error(ErrorKind::kUsage, {"has type tmpfs, not fuse.reshardfs"},
                 [&] { unmount(place_); });
    EXPECT_TRUE(is_mounted(place_));
  });
}

TEST_F(Unmounting, SaysWhichMountMayBeMeant) {
  const fs::path deep = directory("parent/mount-of-rank-0");
  directory("other");
  inside([&] {
    const UnservedMount mount(deep, root_ / "other/../ckpt");
    const std::string list = "'reshardfs status' lists what is mounted where";
    EXPECT_EQ(what_unmounting_says(root_ / "other"),
              (root_ / "other").string() + ": nothing is mounted here; " + list);
    EXPECT_THAT(what_unmounting_says(root_ / "ckpt"),
                HasSubstr("it is the source of a mount: reshardfs umount " + deep.string()));
    EXPECT_THAT(what_unmounting_says(root_ / "parent/mount-of-rank-1"),
                HasSubstr("did you mean '" + deep.string() + "'?"));
    // Paths as wholes are alike, but these are of another directory.
    EXPECT_THAT(what_unmounting_says(root_ / "parens/mount-of-rank-0"), Not(HasSubstr("you mean")));
    EXPECT_THAT(what_unmounting_says(root_ / "parent"),
                HasSubstr("did you mean '" + deep.string() + "'?"));
    EXPECT_THAT(what_unmounting_says(root_ / "par"), Not(HasSubstr("you mean")));
  });
}

TEST_F(Unmounting, LeavesAMountThatIsUsedAndSaysHowToFindItsUsers) {
  inside([&] {
    const UnservedMount mount(place_);
    const Descriptor used(::open(place_.c_str(), O_PATH | O_CLOEXEC));
    expect_error(ErrorKind::kIo,
                 {"the mount is in use", "'fuser -vm " + place_.string() + "'", "umount -l"},
                 [&] { unmount(place_); });
    EXPECT_TRUE(is_mounted(place_));
    play_fusermount("echo 'fusermount3: failed to unmount: Device or resource busy' >&2; exit 1");
    be_an_ordinary_user();
    expect_error(ErrorKind::kIo, {"the mount is in use"}, [&] { unmount(place_); });
    EXPECT_EQ(words(), "-u\n--\n" + place_.string() + "\n");
  });
}

TEST_F(Unmounting, SaysWhyTheKernelOrFusermountDoesNot) {
  inside([&] {
    const UnservedMount mount(place_);
    in_child([&] {
      refuse_call(SYS_umount2, EINVAL);
      play_fusermount("exit 5");
      expect_error(ErrorKind::kIo, {"unmount", place_, "Invalid argument"},
                   [&] { unmount(place_); });
    });
    in_child([&] {
      be_an_ordinary_user();
      play_fusermount("echo 'entry not found' >&2; echo more >&2; exit 1");
      EXPECT_EQ(what_unmounting_says(place_),
                place_.string() + ": cannot unmount: entry not found");
      play_fusermount("exit 5");
      EXPECT_EQ(what_unmounting_says(place_),
                place_.string() + ": cannot unmount: fusermount3 exits with 5");
    });
    mount_memory("/etc");  // without the list of mounts
    be_an_ordinary_user();
    play_fusermount("exit 5");
    EXPECT_THAT(what_unmounting_says(place_), HasSubstr(kMakeListOfMounts));
  });
}

TEST_F(Unmounting, WaitsUntilAMountIsGoneButNotForEver) {
  inside([&] {
    const UnservedMount mount(place_);
    // A thread that the filter of system calls is not for, when fusermount3 has ended.
    std::thread other([&] {
      std::string process;
      while (process.empty()) std::ifstream(root_ / "process") >> process;
      while (fs::exists("/proc/" + process)) std::this_thread::yield();
      EXPECT_EQ(::umount2(place_.c_str(), 0), 0);
    });
    play_fusermount("cd " + root_.string() + " && echo $$ > new && mv new process");
    be_an_ordinary_user();
    EXPECT_EQ(unmount(place_, 1h).mountpoint, place_);
    other.join();
    const UnservedMount next(place_);
    expect_error(ErrorKind::kIo, {place_, "the mount is still there"},
                 [&] { unmount(place_, 0s); });
  });
}

TEST_F(Unmounting, NeedsACapabilityOrTheListOfMounts) {
  inside([&] {
    mount_memory("/etc");
    EXPECT_NO_THROW(require_way_to_unmount());
    test::drop_capabilities();
    expect_error(ErrorKind::kIo, {"there is no /etc/mtab", kMakeListOfMounts},
                 require_way_to_unmount);
    std::ofstream(kListOfMounts) << "";
    errno = ENOENT;
    EXPECT_NO_THROW(require_way_to_unmount());
    ASSERT_EQ(::chmod("/etc", 0), 0);  // others may see it
    EXPECT_NO_THROW(require_way_to_unmount());
  });
}

TEST_F(Unmounting, IsNoticedByAWatch) {
  inside([&] {
    mount_memory(place_);
    UnmountNotice notice(place_);
    EXPECT_TRUE(notice.watches());
    EXPECT_FALSE(notice.came());
    ASSERT_EQ(::umount2(place_.c_str(), 0), 0) << "the watch keeps it busy";
    EXPECT_TRUE(notice.came());
    EXPECT_TRUE(notice.came());  // once more
  });
}

TEST_F(Unmounting, IsNotMistakenForTheRemovalOfADirectory) {
  UnmountNotice notice(place_);
  fs::remove(place_);
  EXPECT_TRUE(notice.watches());
  EXPECT_FALSE(notice.came());
}

TEST_F(Unmounting, IsNotNoticedWhereNothingCanBeWatched) {
  std::ofstream(words_) << "";
  EXPECT_FALSE(UnmountNotice(words_).watches()) << "a file";
  EXPECT_FALSE(UnmountNotice(root_ / "none").watches());
  in_child([&] {
    refuse_call(SYS_inotify_init1, EMFILE);
    UnmountNotice notice(place_);
    EXPECT_FALSE(notice.watches());
    EXPECT_FALSE(notice.came());
  });
}

}  // namespace
}  // namespace reshardfs
