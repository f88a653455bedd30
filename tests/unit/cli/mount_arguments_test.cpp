// SPDX-License-Identifier: Apache-2.0
#include "cli/words/mount_arguments.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(MountArguments, FilesHaveReadBitsAlone) {
  EXPECT_EQ(file_mode_of(0444), 0444U);
  EXPECT_EQ(file_mode_of(0755), 0444U);
  EXPECT_EQ(file_mode_of(0640), 0440U);
  EXPECT_EQ(file_mode_of(0333), 0U);
}

TEST(MountArguments, DirectoriesThatCanBeReadCanBeSearched) {
  EXPECT_EQ(dir_mode_of(0555), 0555U);
  EXPECT_EQ(dir_mode_of(0777), 0555U);
  EXPECT_EQ(dir_mode_of(0440), 0550U);
  EXPECT_EQ(dir_mode_of(0711), 0511U);
  EXPECT_EQ(dir_mode_of(0222), 0U);
}

}  // namespace
}  // namespace reshardfs
