// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/fuse_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

using testing::HasSubstr;

TEST(FuseDescriptor, IsNamedAsLibfuseNamesIt) {
  EXPECT_EQ(fuse_descriptor("/dev/fd/5"), 5);
  EXPECT_EQ(fuse_descriptor("/dev/fd/123"), 123);
  for (const char* other : {"/dev/fd/", "/dev/fd/-1", "/dev/fd/5x", "/dev/fd/5/", "dev/fd/5",
                            "/dev/fd/99999999999", "/dev/fuse", ""}) {
    EXPECT_EQ(fuse_descriptor(other), std::nullopt) << other;
  }
}

std::string refusal(int descriptor) {
  try {
    check_fuse_descriptor(descriptor);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(FuseDescriptor, MustBeOneOfALiveMount) {
  EXPECT_THAT(refusal(STDERR_FILENO), HasSubstr("/dev/fd/2: this is a standard stream"));
  EXPECT_THAT(refusal(1000), HasSubstr("/dev/fd/1000: no such descriptor is open"));
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_THAT(refusal(null), HasSubstr("does not refer to /dev/fuse"));
  ::close(null);
}

TEST(FuseDescriptor, MustBeMounted) {
  const int fuse = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fuse < 0) GTEST_SKIP() << "/dev/fuse cannot be opened here";
  EXPECT_THAT(refusal(fuse), HasSubstr("belongs to no live mount"));
  ::close(fuse);
  const int read_only = ::open("/dev/fuse", O_RDONLY | O_CLOEXEC);
  EXPECT_THAT(refusal(read_only), HasSubstr("reading and writing"));
  ::close(read_only);
}

}  // namespace
}  // namespace reshardfs
