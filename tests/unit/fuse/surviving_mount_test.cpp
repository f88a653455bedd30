// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sched.h>

#include "base/process/child_process.h"
#include "fuse/mounting/unmount.h"
#include "unit/fuse/own_mounts.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::UnservedMount;

class Surviving : public test::OwnMounts {
 protected:
  const fs::path place_ = directory("mnt");
  const fs::path other_ = directory("other");
};

/// A process in a mount namespace of its own, which has all mounts of that of the test.
class Holder {
 public:
  Holder() : process_(::fork()) {
    if (process_ == 0) {
      ::prctl(PR_SET_NAME, "holder");
      ::unshare(CLONE_NEWNS);
      if (::write(ready_.writer.get(), "r", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    EXPECT_TRUE(read_byte(ready_.reader.get()));
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    ::kill(process_, SIGKILL);
    wait_for_end(process_, "wait for it", "");
  }

  pid_t process() const { return process_; }

 private:
  const Pipe ready_;
  const pid_t process_;
};

TEST_F(Surviving, IsFoundAtAnotherPlace) {
  inside([&] {
    const UnservedMount mount(place_);
    ASSERT_EQ(::mount(place_.c_str(), other_.c_str(), nullptr, MS_BIND, nullptr), 0);
    const MountEntry unmounted = unmount(place_);
    const auto found = surviving_mount(unmounted);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->mountpoint, other_);
    EXPECT_EQ(found->process, 0);
    EXPECT_EQ(found->program, "");
    EXPECT_EQ(found->way, other_);
    unmount(other_);
    EXPECT_FALSE(surviving_mount(unmounted));
  });
}

TEST_F(Surviving, IsFoundInTheNamespaceOfAnotherProcess) {
  inside([&] {
    for (const bool lists_devices : {true, false}) {
      if (!lists_devices) mount_memory("/sys");
      const UnservedMount mount(place_);
      const Holder holder;
      const MountEntry unmounted = unmount(place_);
      const auto found = surviving_mount(unmounted);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->mountpoint, place_);
      EXPECT_EQ(found->process, holder.process());
      EXPECT_EQ(found->program, "holder");
      EXPECT_EQ(found->way,
                "/proc/" + std::to_string(holder.process()) + "/root" + place_.native());
    }
  });
}

TEST_F(Surviving, IsKnownByItsDeviceWhereNoProcessShowsIt) {
  if (!fs::is_directory("/sys/class/bdi")) GTEST_SKIP() << "the kernel's devices are not listed";
  inside([&] {
    const UnservedMount mount(place_);
    const MountEntry unmounted = mount.entry();
    const Descriptor used(::open(place_.c_str(), O_PATH | O_CLOEXEC));
    ASSERT_TRUE(detach_mount(place_));
    const auto found = surviving_mount(unmounted);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->mountpoint, "");
    EXPECT_EQ(found->process, 0);
    EXPECT_EQ(found->way, "");
    mount_memory("/sys");
    EXPECT_FALSE(surviving_mount(unmounted)) << "it cannot be known";
  });
}

/// The numbers of a mount and of its device are soon those of another one.
TEST_F(Surviving, IsNoOtherMountWithTheSameNumbers) {
  inside([&] {
    const UnservedMount mount(place_);
    const UnservedMount of_another_type(other_, "/source", "fuse.other");
    EXPECT_FALSE(surviving_mount(mount.entry())) << "the same one, which is mounted here again";
    MountEntry unmounted = mount.entry();
    unmounted.id = 0;
    EXPECT_TRUE(surviving_mount(unmounted));
    unmounted.source = "/before";
    EXPECT_FALSE(surviving_mount(unmounted)) << "of another source";
    unmounted = of_another_type.entry();
    unmounted.id = 0;
    EXPECT_FALSE(surviving_mount(unmounted)) << "of another type";
  });
}

}  // namespace
}  // namespace reshardfs
