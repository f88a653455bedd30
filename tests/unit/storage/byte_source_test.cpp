// SPDX-License-Identifier: Apache-2.0
#include "storage/byte_source.h"

#include <array>
#include <memory>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "support/sources.h"

namespace reshardfs {
namespace {

TEST(ByteSource, ThatIsNothingSpecialIsReadPartByPart) {
  const test::Decorator source(std::make_shared<const test::MemorySource>("0123456789"));
  std::string one(2, '?');
  std::string other(3, '?');
  const std::array parts{ReadRequest{1, std::as_writable_bytes(std::span(one))},
                         ReadRequest{6, std::as_writable_bytes(std::span(other))}};
  source.read_many(parts);
  EXPECT_EQ(one + other, "12678");
  EXPECT_FALSE(source.is_far());
  EXPECT_FALSE(source.is_remote());
  EXPECT_FALSE(source.gather(StridedRanges(ByteRange(0, 1), 1, {}), nullptr));
}

}  // namespace
}  // namespace reshardfs
