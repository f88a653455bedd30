// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/passthrough.h"

#include <linux/fuse.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/recorded_log.h"

namespace reshardfs {
namespace {

using testing::HasSubstr;

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17) && defined(FUSE_DEV_IOC_BACKING_OPEN)
constexpr bool kIsBuilt = true;

TEST(Passthrough, IsWantedOfAKernelThatHasItBelowOtherFileSystems) {
  fuse_conn_info connection{};
  connection.capable = FUSE_CAP_PASSTHROUGH;
  EXPECT_TRUE(want_passthrough(connection));
  EXPECT_EQ(connection.want, FUSE_CAP_PASSTHROUGH);
  EXPECT_EQ(connection.max_backing_stack_depth, FUSE_BACKING_STACKED_UNDER);
}

TEST(Passthrough, TakesThePlaceOfTheOtherWaysToRead) {
  fuse_file_info info{};
  info.direct_io = 1;
  info.keep_cache = 1;
  read_from_backing_file(info, 7);
  EXPECT_EQ(info.backing_id, 7);
  EXPECT_EQ(info.direct_io, 0U);
  EXPECT_EQ(info.keep_cache, 0U);
}
#else
constexpr bool kIsBuilt = false;
#endif

TEST(Passthrough, IsNotWantedOfAKernelThatLacksIt) {
  fuse_conn_info connection{};
  EXPECT_FALSE(want_passthrough(connection));
  EXPECT_EQ(connection.want, 0U);
}

TEST(Passthrough, SaysWhyThereIsNone) {
  EXPECT_EQ(is_passthrough_built(), kIsBuilt);
  Passthrough passthrough;
  {
    const test::CaughtLog log;
    explain_passthrough(passthrough);
    EXPECT_THAT(log.text(),
                HasSubstr(kIsBuilt ? "no passthrough: this kernel does not have it"
                                   : "no passthrough: reshardfs was built with libfuse"));
  }
  passthrough.on = true;
  const test::CaughtLog log;
  explain_passthrough(passthrough);
  EXPECT_THAT(log.text(), HasSubstr("no passthrough: the kernel refuses backing files: "));
  EXPECT_THAT(log.text(), HasSubstr(kIsBuilt ? "Bad file descriptor" : "Operation not supported"));
}

}  // namespace
}  // namespace reshardfs
