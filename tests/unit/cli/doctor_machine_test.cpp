// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/doctor/machine_checks.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using testing::HasSubstr;

TEST(DoctorMachine, SaysWhatADeviceLacks) {
  const test::TempDir dir;
  EXPECT_EQ(check_device(dir.write("fuse", "")).health, Health::kOk);
  const Finding missing = check_device(dir.path() / "none");
  EXPECT_EQ(missing.health, Health::kFailed);
  EXPECT_THAT(missing.message, HasSubstr("No such file"));
  EXPECT_THAT(missing.remedy, HasSubstr("modprobe fuse"));
}

TEST(DoctorMachine, AnOrdinaryUserNeedsFusermount) {
  const test::TempDir dir;
  EXPECT_EQ(check_right_to_mount({.has_capability = true}, "").health, Health::kOk);
  EXPECT_EQ(check_right_to_mount({}, dir.path()).health, Health::kFailed);
  const auto program = dir.write("fusermount3", "");
  ::chmod(program.c_str(), 0755);
  const Finding plain = check_right_to_mount({}, "/nowhere:" + dir.path().string());
  EXPECT_EQ(plain.health, Health::kFailed);
  EXPECT_THAT(plain.message, HasSubstr("set-user-ID"));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a set-user-ID program of root";
  ::chmod(program.c_str(), 04755);
  EXPECT_EQ(check_right_to_mount({}, dir.path()).health, Health::kOk);
  const Finding disarmed = check_right_to_mount({.ignores_set_user_id = true}, dir.path());
  EXPECT_EQ(disarmed.health, Health::kFailed);
  EXPECT_THAT(disarmed.remedy, HasSubstr("reshardfs run"));
}

TEST(DoctorMachine, AnOrdinaryUserNeedsALineForAllowOther) {
  const test::TempDir dir;
  EXPECT_EQ(check_allow_other(true, true, dir.path() / "none").health, Health::kOk);
  EXPECT_EQ(check_allow_other(false, true, dir.path() / "none").health, Health::kFailed);
  EXPECT_EQ(check_allow_other(false, false, dir.path() / "none").health, Health::kWarning);
  for (const char* without : {"#user_allow_other\n", "user_allow_other = 1\n", "mount_max = 5\n"}) {
    const Finding lacks = check_allow_other(false, true, dir.write("fuse.conf", without));
    EXPECT_EQ(lacks.health, Health::kFailed) << without;
    EXPECT_THAT(lacks.remedy, HasSubstr("tee -a " + (dir.path() / "fuse.conf").string()));
  }
  EXPECT_EQ(
      check_allow_other(false, true, dir.write("fuse.conf", "# a\n user_allow_other\n")).health,
      Health::kOk);
}

TEST(DoctorMachine, KnowsOldKernels) {
  EXPECT_EQ(check_kernel("4.19.0-25-amd64").health, Health::kWarning);
  EXPECT_EQ(check_kernel("4.20.1").health, Health::kOk);
  EXPECT_EQ(check_kernel("5.4").health, Health::kOk);
  EXPECT_EQ(check_kernel("6.1.0-18-amd64").health, Health::kOk);
  EXPECT_EQ(check_kernel("strange").health, Health::kWarning);
}

TEST(DoctorMachine, KnowsSmallRequests) {
  const test::TempDir dir;
  EXPECT_EQ(check_request_size(dir.path() / "none").health, Health::kSkipped);
  EXPECT_EQ(check_request_size(dir.write("limit", "256\n")).health, Health::kOk);
  const Finding small = check_request_size(dir.write("limit", "32\n"));
  EXPECT_EQ(small.health, Health::kWarning);
  EXPECT_THAT(small.message, HasSubstr("128.0 KiB"));
  EXPECT_EQ(small.remedy, "sysctl -w fs.fuse.max_pages_limit=256");
}

TEST(DoctorMachine, PassthroughIsMissedOnlyByWhoNeedsIt) {
  EXPECT_EQ(check_passthrough("6.1.0", true, false).health, Health::kSkipped);
  const Finding needed = check_passthrough("6.1.0", true, true);
  EXPECT_EQ(needed.health, Health::kWarning);
  EXPECT_THAT(needed.message, HasSubstr("not available"));
}

TEST(DoctorMachine, SaysThatIoUringIsNotUsed) {
  const test::TempDir dir;
  EXPECT_THAT(check_io_uring(dir.path() / "none").message, HasSubstr("not in this kernel"));
  EXPECT_THAT(check_io_uring(dir.write("on", "Y\n")).message, HasSubstr("is on"));
  EXPECT_EQ(check_io_uring(dir.write("off", "N\n")).health, Health::kSkipped);
}

TEST(DoctorMachine, KnowsSmallLimits) {
  EXPECT_EQ(check_open_files(1024, 1048576).health, Health::kOk);
  const Finding small = check_open_files(256, 256);
  EXPECT_EQ(small.health, Health::kWarning);
  EXPECT_THAT(small.remedy, HasSubstr("ulimit"));
  EXPECT_EQ(check_processes(std::nullopt).health, Health::kOk);
  EXPECT_EQ(check_processes(100000).health, Health::kOk);
  EXPECT_EQ(check_processes(64).health, Health::kWarning);
}

TEST(DoctorMachine, KnowsFewWatches) {
  const test::TempDir dir;
  EXPECT_EQ(check_watches(dir.path()).health, Health::kSkipped);
  dir.write("max_user_watches", "100000\n");
  EXPECT_EQ(check_watches(dir.path()).health, Health::kOk);
  dir.write("max_user_watches", "128\n");
  const Finding few = check_watches(dir.path());
  EXPECT_EQ(few.health, Health::kWarning);
  EXPECT_EQ(few.remedy, "sysctl -w fs.inotify.max_user_watches=65536");
}

}  // namespace
}  // namespace reshardfs
