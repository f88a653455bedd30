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

}  // namespace
}  // namespace reshardfs
