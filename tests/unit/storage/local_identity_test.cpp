// SPDX-License-Identifier: Apache-2.0
#include "storage/local/local_identity.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <sched.h>

#include "base/posix/descriptor.h"
#include "base/posix/mount_table.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::system_clock;

using test::TempDir;

struct stat examine(const std::filesystem::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status;
}

class LocalIdentity : public testing::Test {
 protected:
  LocalIdentity() { std::ofstream(path_) << "bytes"; }

  TempDir directory_;
  std::filesystem::path path_ = directory_.path() / "a";
  Clock::time_point later_ = Clock::now() + seconds(10);
};

TEST_F(LocalIdentity, IsTheSameForTheSameFile) {
  const std::string first = local_identity(path_, examine(path_), later_);
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(local_identity(path_, examine(path_), later_ + seconds(1000)), first);
}

TEST_F(LocalIdentity, DependsOnEveryField) {
  const struct stat found = examine(path_);
  std::set<std::string> all{local_identity(path_, found, later_)};
  std::array<struct stat, 4> changed{found, found, found, found};
  ++changed[0].st_ino;
  ++changed[1].st_size;
  ++changed[2].st_mtim.tv_nsec;
  ++changed[3].st_ctim.tv_nsec;
  for (const struct stat& other : changed) all.insert(local_identity(path_, other, later_));
  all.insert(local_identity(directory_.path() / "b", found, later_));
  EXPECT_EQ(all.size(), 6U);
}

/// The number of a device depends on what was mounted before; a server has its own.
TEST_F(LocalIdentity, NamesAFileSystemByItsOwnId) {
  struct statfs system {};
  ASSERT_EQ(::statfs(path_.c_str(), &system), 0);
  std::array<unsigned, 2> id{};
  std::memcpy(id.data(), &system.f_fsid, sizeof(id));
  if (id == std::array<unsigned, 2>{}) GTEST_SKIP() << "this file system has none";
  const std::string identity = local_identity(path_, examine(path_), later_);
  EXPECT_NE(identity.find("\n" + std::to_string(system.f_type) + " " + std::to_string(id[0]) + " " +
                          std::to_string(id[1]) + "\n"),
            std::string::npos)
      << identity;
}

TEST_F(LocalIdentity, NamesWhatCannotBeAskedByItsDevice) {
  const std::string identity = local_identity(directory_.path() / "gone", examine(path_), later_);
  EXPECT_NE(identity.find("\n" + std::to_string(examine(path_).st_dev) + "\n"), std::string::npos)
      << identity;
}

/// To a user who may not look at it, the kernel says so much of a FUSE mount without asking who
/// serves it.
TEST_F(LocalIdentity, NamesAMountWithoutAnIdByWhatIsMountedAndItsDevice) {
  const std::filesystem::path place = directory_.make_directory("mount");
  test::in_child([&] {
    const Descriptor kernel(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const std::string options =
        "fd=" + std::to_string(kernel.get()) + ",rootmode=40000,user_id=12345,group_id=12345";
    if (!kernel || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("server:/export", place.c_str(), "fuse.other", MS_NOSUID | MS_NODEV,
                options.c_str()) != 0) {
      ::_exit(test::kSkippedInChild);
    }
    const std::string device = mount_at(place).value().device;
    const std::size_t colon = device.find(':');
    struct stat found = examine(path_);
    found.st_dev = ::makedev(static_cast<unsigned>(std::stoul(device.substr(0, colon))),
                             static_cast<unsigned>(std::stoul(device.substr(colon + 1))));
    const std::string identity = local_identity(place, found, later_);
    EXPECT_NE(identity.find(" fuse.other server:/export " + std::to_string(found.st_dev) + "\n"),
              std::string::npos)
        << identity;
  });
}

TEST_F(LocalIdentity, IsUnknownWhileAnotherWriteMightLeaveTheSameTimes) {
  struct stat found = examine(path_);
  const auto written = Clock::time_point(seconds(found.st_mtim.tv_sec) +
                                         std::chrono::microseconds(found.st_mtim.tv_nsec / 1000));
  EXPECT_EQ(local_identity(path_, found, written + std::chrono::milliseconds(1900)), "");
  EXPECT_NE(local_identity(path_, found, written + std::chrono::milliseconds(2100)), "");
  struct stat whole = found;
  whole.st_mtim.tv_nsec = whole.st_ctim.tv_nsec = 0;
  const Clock::time_point settled(
      seconds(std::max(whole.st_mtim.tv_sec, whole.st_ctim.tv_sec) + 2));
  EXPECT_NE(local_identity(path_, whole, settled), "");
  EXPECT_EQ(local_identity(path_, whole, settled - std::chrono::nanoseconds(1)), "");
  EXPECT_EQ(local_identity(path_, found, written - seconds(100)), "");
  // An old modification time can be set; the change time cannot.
  found.st_mtim.tv_sec -= 1000;
  EXPECT_EQ(local_identity(path_, found, written + std::chrono::milliseconds(1900)), "");
}

TEST_F(LocalIdentity, HasAnAbsolutePath) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  const std::string relative = local_identity("a", examine("a"), later_);
  std::filesystem::current_path(before);
  const std::filesystem::path real = std::filesystem::canonical(directory_.path()) / "a";
  EXPECT_EQ(relative, local_identity(real, examine(path_), later_));
}

}  // namespace
}  // namespace reshardfs
