// SPDX-License-Identifier: Apache-2.0
#include "storage/source_use.h"

#include <gtest/gtest.h>

#include "support/sources.h"

namespace reshardfs {
namespace {

TEST(SourceUse, IsToldByItsThreadAlone) {
  const test::MemorySource source("bytes");
  now_using(&source);  // nobody looks
  still_using();
  SourceUse use;
  const SourceUse::Scope scope(use);
  EXPECT_EQ(use.look(), (SourceUse::Look{nullptr, 0}));
  now_using(&source);
  EXPECT_EQ(use.look(), (SourceUse::Look{&source, 1}));
  still_using();
  EXPECT_EQ(use.look(), (SourceUse::Look{&source, 2}));
  now_using(nullptr);
  EXPECT_EQ(use.look(), (SourceUse::Look{nullptr, 3}));
  still_using();
  EXPECT_EQ(use.look(), (SourceUse::Look{nullptr, 3}));
}

}  // namespace
}  // namespace reshardfs
