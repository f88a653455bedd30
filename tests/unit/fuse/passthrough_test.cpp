// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/passthrough.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/caught_log.h"

namespace reshardfs {
namespace {

using testing::HasSubstr;

constexpr bool kIsBuilt = FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17);

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
