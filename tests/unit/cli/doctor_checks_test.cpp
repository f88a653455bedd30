// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_checks.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using testing::HasSubstr;

TEST(Doctor, SaysWhatADeviceLacks) {
  const test::TempDir dir;
  EXPECT_EQ(check_device(dir.write("fuse", "")).health, Health::kGood);
  const Finding missing = check_device(dir.path() / "none");
  EXPECT_EQ(missing.health, Health::kBad);
  EXPECT_THAT(missing.found, HasSubstr("No such file"));
  EXPECT_THAT(missing.advice, HasSubstr("modprobe fuse"));
}

TEST(Doctor, AnOrdinaryUserNeedsFusermount) {
  const test::TempDir dir;
  EXPECT_EQ(check_right_to_mount(true, "").health, Health::kGood);
  EXPECT_EQ(check_right_to_mount(false, dir.path()).health, Health::kBad);
  const auto program = dir.write("fusermount3", "");
  ::chmod(program.c_str(), 0755);
  const Finding plain = check_right_to_mount(false, "/nowhere:" + dir.path().string());
  EXPECT_EQ(plain.health, Health::kBad);
  EXPECT_THAT(plain.found, HasSubstr("set-user-ID"));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a set-user-ID program of root";
  ::chmod(program.c_str(), 04755);
  EXPECT_EQ(check_right_to_mount(false, dir.path()).health, Health::kGood);
}

TEST(Doctor, KnowsOldKernels) {
  EXPECT_EQ(check_kernel("4.19.0-25-amd64").health, Health::kLimited);
  EXPECT_EQ(check_kernel("4.20.1").health, Health::kGood);
  EXPECT_EQ(check_kernel("5.4").health, Health::kGood);
  EXPECT_EQ(check_kernel("6.1.0-18-amd64").health, Health::kGood);
  EXPECT_EQ(check_kernel("strange").health, Health::kLimited);
}

TEST(Doctor, KnowsSmallLimits) {
  EXPECT_EQ(check_open_files(1024, 1048576).health, Health::kGood);
  const Finding small = check_open_files(256, 256);
  EXPECT_EQ(small.health, Health::kLimited);
  EXPECT_THAT(small.advice, HasSubstr("ulimit"));
}

TEST(Doctor, OpensSources) {
  const test::TempDir dir;
  const Finding good = check_source(dir.write("m.ckpt", test::small_record("w")));
  EXPECT_EQ(good.health, Health::kGood);
  EXPECT_THAT(good.found, HasSubstr("files: 1"));
  const Finding bad = check_source(dir.write("broken.ckpt", "nonsense"));
  EXPECT_EQ(bad.health, Health::kBad);
  EXPECT_THAT(bad.found, HasSubstr("broken.ckpt"));
}

}  // namespace
}  // namespace reshardfs
