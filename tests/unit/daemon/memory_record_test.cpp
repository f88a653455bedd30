// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/memory_record.h"

#include <string>

#include <gtest/gtest.h>

#include "fuse/opening_table.h"

namespace reshardfs {
namespace {

TEST(MemoryRecord, HasATextAndOpeningsBesideEachOther) {
  MemoryRecord record;
  record.write("before");
  OpeningTable table(record.openings());
  table.add(5, 6);
  record.write(std::string(100000, 'x'));
  EXPECT_EQ(record.read().size(), 100000U);
  EXPECT_EQ(OpeningTable(record.openings()).tree_of(5), 6U);
}

}  // namespace
}  // namespace reshardfs
