// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_items.h"

#include <memory>

#include <gtest/gtest.h>

#include "support/sources.h"

namespace reshardfs {
namespace {

/// As an object of a server.
class RemoteSource final : public test::Decorator {
 public:
  using Decorator::Decorator;
  bool is_far() const noexcept override { return true; }
  bool is_remote() const noexcept override { return true; }
};

TEST(TorchItems, AreWhereTheirFileIs) {
  const auto local = std::make_shared<test::MemorySource>(std::string(16, 'x'));
  TensorEntry entry;
  entry.name = "w";
  entry.shape = {4};
  const auto items = std::make_shared<const TorchItems>(
      std::vector<TensorEntry>{entry}, PieceOffsets(), std::vector<ByteRange>{{0, 16}});
  const ByteSourcePtr here = items->tensors(local);
  EXPECT_FALSE(here->is_far());
  EXPECT_FALSE(here->is_remote());
  const ByteSourcePtr there = items->tensors(std::make_shared<RemoteSource>(local));
  EXPECT_TRUE(there->is_far());
  EXPECT_TRUE(there->is_remote());
}

TEST(TorchItems, WhosePlaceIsNotInTheFileAreSeenByItsSize) {
  TensorEntry entry;
  entry.name = "w";
  entry.shape = {4};
  TensorEntry later = entry;
  later.name = "x";
  TensorEntry empty = entry;
  empty.name = "empty";
  empty.shape = {0};
  const auto items = std::make_shared<const TorchItems>(
      std::vector<TensorEntry>{entry, later, empty}, PieceOffsets(),
      std::vector<ByteRange>{{0, 16}, {1, 16}, {900, 16}});
  EXPECT_EQ(items->places(), 3U);
  const test::MemorySource file(std::string(16, 'x'), "f");
  const auto by_size = items->examine(file, /*read_all=*/false);
  ASSERT_EQ(by_size.size(), 1U);
  EXPECT_EQ(by_size[0].name, "x");
  EXPECT_EQ(by_size[0].reason, "'f': its place ends at byte 17, but the file has 16 bytes");
  const auto read = items->examine(file, /*read_all=*/true);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].name, "w");
}

}  // namespace
}  // namespace reshardfs
