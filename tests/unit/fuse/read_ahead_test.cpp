// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fuse/mounting/mount_options.h"
#include "unit/fuse/own_mounts.h"

namespace reshardfs {
namespace {

class ReadAhead : public test::OwnMounts {};

TEST_F(ReadAhead, IsLargerForWhatIsFar) {
  EXPECT_EQ(read_ahead_for("https://server/a"), 4096U);
  const auto place = directory("mnt");
  inside([&] {
    const test::AnsweredMount mount(place);
    EXPECT_EQ(read_ahead_for(place), 4096U);
  });
}

TEST_F(ReadAhead, IsThatOfAnAnsweringSourceIfNothingIsKnown) {
  EXPECT_EQ(read_ahead_for("/nowhere/at/all"), 1024U);
  EXPECT_EQ(read_ahead_for("/proc"), 1024U);
}

}  // namespace
}  // namespace reshardfs
