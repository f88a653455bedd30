// SPDX-License-Identifier: Apache-2.0
#include "fuse/session.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include <fuse_log.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fuse/mounting/fuse_descriptor.h"
#include "support/errors.h"
#include "support/recorded_log.h"
#include "unit/fuse/fake_kernel.h"
#include "unit/fuse/own_mounts.h"
#include "vfs/tree_source.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::CaughtLog;
using test::expect_error;
using test::in_child;
using test::refuse_call;
using test::UnservedMount;
using testing::HasSubstr;

/// A process that serves a mount.
struct Server {
  explicit Server(const fs::path& place, bool nonempty = false) {
    options.mountpoint = place;
    options.nonempty = nonempty;
    options.source_name = "/source";
    session.emplace(options, served);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() { end(); }

  void answer_one() {
    fuse_buf buffer{};
    ASSERT_GT(fuse_session_receive_buf(session->get(), &buffer), 0);
    fuse_session_process_buf(session->get(), &buffer);
    std::free(buffer.mem);
  }
  /// Answers what is asked for it.
  void watch_for_unmount() {
    const std::jthread answering([this] {
      answer_one();  // FUSE_INIT
      answer_one();
    });
    session->watch_for_unmount();
  }
  void end() {
    served.storage.stop();
    session.reset();
  }

  Tree tree = TreeBuilder().build();
  FixedTree source{tree};
  MountOptions options;
  ServedTree served{source, options};
  std::optional<Session> session;
};

class SessionTest : public test::OwnMounts {
 protected:
  /// The connection of what is mounted there ends, and the mount stays.
  void abort_connection() const {
    const Descriptor used(::open(place_.c_str(), O_PATH | O_CLOEXEC));
    EXPECT_EQ(::umount2(place_.c_str(), MNT_FORCE), -1);
    EXPECT_TRUE(is_mounted(place_));
  }
  /// From now on.
  static void hide_the_list_of_mounts() {
    ASSERT_EQ(::mount("/dev/null", "/proc/self/mountinfo", nullptr, MS_BIND, nullptr), 0);
  }
  static void show_the_list_of_mounts() { ASSERT_EQ(::umount("/proc/self/mountinfo"), 0); }
  static std::ptrdiff_t descriptors() {
    return std::distance(fs::directory_iterator("/proc/self/fd"), {});
  }

  const fs::path place_ = directory("mnt");
};

TEST(SessionOptions, AreKnownToLibfuse) {
  MountOptions options;
  EXPECT_NO_THROW(require_known_options(options));
  options.fuse_options = {"noatim"};
  expect_error(ErrorKind::kUsage, {"there is no mount option 'noatim'"},
               [&] { require_known_options(options); });
}

TEST(SessionMessages, OfLibfuseAreLogged) {
  require_known_options({});
  const CaughtLog log;
  fuse_log(FUSE_LOG_ERR, "lost %d\n", 1);
  fuse_log(FUSE_LOG_WARNING, "odd\n\n");
  fuse_log(FUSE_LOG_DEBUG, "seen");
  EXPECT_EQ(log.text(), "error: lost 1\ndebug: odd\\n\ndebug: seen\n");
}

TEST_F(SessionTest, MountsAndUnmounts) {
  inside([this] {
    Server server(place_);
    const auto before = descriptors();
    server.session->mount();
    ASSERT_TRUE(server.session->place());
    EXPECT_EQ(server.session->place()->mountpoint, place_);
    EXPECT_EQ(server.session->place()->type, kMountType);
    EXPECT_EQ(server.session->place()->source, "/source");
    EXPECT_TRUE(server.session->is_in_place());
    server.answer_one();
    EXPECT_TRUE(server.served.channel.negotiation().is_done());
    server.end();
    EXPECT_FALSE(is_mounted(place_));
    EXPECT_EQ(descriptors(), before);
  });
}

TEST_F(SessionTest, MountsOverFilesOnlyWhereThatIsAllowed) {
  std::ofstream(place_ / "file") << "x";
  inside([this] {
    expect_error(ErrorKind::kUsage, {"not empty"}, [this] { Server(place_).session->mount(); });
    Server server(place_, true);
    server.session->mount();
    EXPECT_TRUE(is_mounted(place_));
  });
}

TEST_F(SessionTest, SaysWhyItCannotMount) {
  inside([this] {
    Server server(place_);
    in_child([&] {
      refuse_call(SYS_mount, ENOMEM);
      expect_error(ErrorKind::kIo, {place_, "cannot mount here: ", "Cannot allocate memory"},
                   [&] { server.session->mount(); });
    });
    in_child([&] {
      test::limit_descriptors(1 + 7);  // beside the lock of the place
      expect_error(ErrorKind::kIo, {"keep files open for the mount"},
                   [&] { server.session->mount(); });
    });
    in_child([&] {
      test::limit_descriptors(1 + 8);
      server.session->mount();
      server.end();
    });
    in_child([&] {
      mount_memory("/etc");
      test::drop_capabilities();
      expect_error(ErrorKind::kIo, {"there is no /etc/mtab"}, [&] { server.session->mount(); });
    });
  });
}

/// libfuse has mounted it by then.
TEST_F(SessionTest, LeavesNoMountThatItCannotFind) {
  inside([this] {
    Server server(place_, true);
    hide_the_list_of_mounts();
    expect_error(ErrorKind::kIo, {"read the list of mounts"}, [&] { server.session->mount(); });
    server.end();
    show_the_list_of_mounts();
    EXPECT_FALSE(is_mounted(place_));
  });
}

TEST_F(SessionTest, LeavesAMountToWhoHasMountedItsDescriptor) {
  inside([this] {
    const UnservedMount mount(place_);
    const int given = ::dup(mount.device());
    {
      Server server("/dev/fd/" + std::to_string(given));
      server.session->mount();
      EXPECT_EQ(::fcntl(given, F_GETFD), FD_CLOEXEC);
      EXPECT_EQ(server.session->descriptor(), given);
      EXPECT_FALSE(server.session->place());
      EXPECT_FALSE(server.session->is_in_place());
      server.session->watch_for_unmount();
      server.session->detach();
    }
    EXPECT_TRUE(is_mounted(place_));
    EXPECT_FALSE(has_ended(mount.device()));
    const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    expect_error(ErrorKind::kUsage, {"does not refer to /dev/fuse"},
                 [&] { Server("/dev/fd/" + std::to_string(null.get())).session->mount(); });
  });
}

TEST_F(SessionTest, LeavesAMountToASuccessor) {
  inside([this] {
    Server former(place_);
    former.session->mount();
    former.answer_one();
    Descriptor device(::fcntl(former.session->descriptor(), F_DUPFD_CLOEXEC, 3));
    const MountEntry entry = *former.session->place();
    const auto before = descriptors();
    former.session->release();
    EXPECT_TRUE(has_ended(former.session->descriptor())) << "it can still answer";
    former.end();
    EXPECT_EQ(descriptors(), before - 1);
    EXPECT_FALSE(has_ended(device.get()));
    EXPECT_TRUE(is_mounted(place_));

    Server successor(place_);
    EXPECT_EQ(successor.session->replay(former.served.channel.negotiation()), "");
    successor.session->adopt(std::move(device), entry);
    EXPECT_EQ(::fcntl(successor.session->descriptor(), F_GETFD), FD_CLOEXEC);
    EXPECT_TRUE(successor.session->is_in_place());
    successor.session->detach();
    EXPECT_FALSE(is_mounted(place_));
  });
}

TEST_F(SessionTest, NeedsDescriptorsToTakeAMountOver) {
  in_child([this] {
    Server successor(place_);
    expect_error(ErrorKind::kIo, {"keep the mount's descriptor"},
                 [&] { successor.session->adopt(Descriptor(), std::nullopt); });
    refuse_call(SYS_openat, EMFILE);
    expect_error(ErrorKind::kIo, {"/dev/null"}, [&] { successor.session->replay({}); });
  });
}

TEST_F(SessionTest, LeavesALaterMountInItsPlace) {
  inside([this] {
    Server server(place_);
    server.session->mount();
    const UnservedMount later(place_, "/later");
    EXPECT_FALSE(server.session->is_in_place());
    server.session->detach();
    const auto before = descriptors();
    server.end();
    EXPECT_EQ(descriptors(), before - 1);
    EXPECT_EQ(later.entry().source, "/later");
    EXPECT_EQ(::umount2(place_.c_str(), 0), 0);
    EXPECT_EQ(mount_at(place_).value().source, "/source") << "the later one was taken away";
  });
}

TEST_F(SessionTest, UnmountsWhereADirectoryAboveWasRenamedTo) {
  const fs::path above = directory("above/mnt").parent_path();
  inside([&] {
    Server server(above / "mnt");
    server.session->mount();
    fs::rename(above, root_ / "moved");
    fs::create_directories(above / "mnt");
    mount_memory(above / "mnt");
    EXPECT_TRUE(server.session->is_in_place());
    server.end();
    EXPECT_FALSE(is_mounted(root_ / "moved/mnt"));
    EXPECT_TRUE(is_mounted(above / "mnt")) << "another one was taken away";
  });
}

TEST_F(SessionTest, UnmountsWhatWasAborted) {
  inside([this] {
    Server server(place_);
    server.session->mount();
    server.watch_for_unmount();
    abort_connection();
    EXPECT_TRUE(server.session->is_in_place());
    server.end();
    EXPECT_FALSE(is_mounted(place_));
  });
}

/// Whether what is there is this mount or a later one cannot be known.
TEST_F(SessionTest, LeavesWhatWasAbortedIfItCouldNotBeWatched) {
  inside([this] {
    refuse_call(SYS_inotify_init1, EMFILE);
    Server server(place_);
    server.session->mount();
    server.session->watch_for_unmount();
    EXPECT_TRUE(server.session->is_in_place());
    abort_connection();
    EXPECT_FALSE(server.session->is_in_place());
    server.end();
    EXPECT_TRUE(is_mounted(place_));
  });
}

TEST_F(SessionTest, IsNotInPlaceAfterAnotherProcessHasUnmountedIt) {
  inside([this] {
    Server server(place_);
    server.session->mount();
    server.watch_for_unmount();
    ASSERT_EQ(::umount2(place_.c_str(), 0), 0);
    const UnservedMount later(place_);
    EXPECT_FALSE(server.session->is_in_place());
    server.end();
    EXPECT_TRUE(is_mounted(place_));
  });
}

TEST_F(SessionTest, AbandonsItsMount) {
  inside([this] {
    Server server(place_);
    server.session->mount();
    const Descriptor used(::open(place_.c_str(), O_PATH | O_CLOEXEC));
    server.session->abandon();
    EXPECT_TRUE(fuse_session_exited(server.session->get()));
    EXPECT_TRUE(has_ended(server.session->descriptor())) << "readers still wait";
    EXPECT_FALSE(is_mounted(place_));
  });
  inside([this] {
    Server server(place_);
    server.session->mount();
    const UnservedMount later(place_);
    server.session->abandon();
    EXPECT_EQ(later.entry().source, "/source");
    EXPECT_EQ(::umount2(place_.c_str(), 0), 0);
    EXPECT_TRUE(is_mounted(place_)) << "the later one was taken away";
  });
}

TEST_F(SessionTest, SaysThatItMayHaveLeftItsMount) {
  inside([this] {
    Server server(place_);
    server.session->mount();
    const std::string said = "warning: the mount may be left there: ";
    {
      const CaughtLog log;
      hide_the_list_of_mounts();
      EXPECT_FALSE(server.session->is_in_place());
      show_the_list_of_mounts();
      EXPECT_THAT(log.text(), HasSubstr(said + "/proc/self/mountinfo"));
    }
    in_child([&] {
      ::setenv("PATH", directory("bin").c_str(), 1);  // without fusermount3
      refuse_call(SYS_umount2, EPERM);
      const CaughtLog log;
      server.session->detach();
      EXPECT_THAT(log.text(), HasSubstr(said + "fusermount3"));
    });
  });
}

}  // namespace
}  // namespace reshardfs
