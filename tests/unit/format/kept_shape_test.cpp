// SPDX-License-Identifier: Apache-2.0
#include "format/kept_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(KeptShape, ReadsLikeAShape) {
  const KeptShape kept{2, 3};
  EXPECT_THAT(kept, ElementsAre(2, 3));
  EXPECT_EQ(kept, (Shape{2, 3}));
  EXPECT_EQ(kept, (KeptShape{2, 3}));
  EXPECT_NE(kept, (KeptShape{3, 2}));
  EXPECT_EQ(to_string(kept), "[2, 3]");
  EXPECT_EQ(kept.front() * 10 + kept.back(), 23);
  const Shape copy = kept;
  EXPECT_THAT(copy, ElementsAre(2, 3));
}

TEST(KeptShape, IsThatOfAScalarAtFirst) {
  KeptShape kept;
  EXPECT_THAT(kept, IsEmpty());
  EXPECT_EQ(kept, KeptShape(Shape()));
  kept = Shape{4};
  EXPECT_THAT(kept, ElementsAre(4));
  kept = {5, 6};
  EXPECT_THAT(kept, ElementsAre(5, 6));
  kept = {};
  EXPECT_EQ(kept, Shape());
}

TEST(ShapeKinds, KeepEqualShapesOnce) {
  ShapeKinds kinds;
  const KeptShape first = kinds.keep(Shape{2, 3});
  const KeptShape other = kinds.keep(Shape{3, 2});
  const KeptShape again = kinds.keep(KeptShape{2, 3});
  EXPECT_THAT(other, ElementsAre(3, 2));
  EXPECT_EQ(&first.get(), &again.get());
  EXPECT_NE(&first.get(), &other.get());
  EXPECT_THAT(kinds.keep(Shape()), IsEmpty());
  EXPECT_EQ(&kinds.keep(Shape{3, 2}).get(), &other.get());
}

TEST(ShapeKinds, TakeAnyNumber) {
  ShapeKinds kinds;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t size = 0; size < 10'000; ++size) {
      ASSERT_THAT(kinds.keep(Shape{size}), ElementsAre(size));
    }
  }
}

}  // namespace
}  // namespace reshardfs
