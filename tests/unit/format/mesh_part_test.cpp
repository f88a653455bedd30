// SPDX-License-Identifier: Apache-2.0
#include "format/torch/mesh_part.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs::mesh_part_tests {
namespace {

using test::expect_error;
using Numbers = std::vector<std::int64_t>;
using Placements = std::vector<MeshPlacement>;

constexpr MeshPlacement kReplicate{};

/// The range of the first dimension.
std::pair<std::int64_t, std::int64_t> rows(std::int64_t length, const Placements& placements,
                                           const Numbers& sizes, const Numbers& place) {
  const MeshPart part = part_on_mesh({length}, placements, sizes, place);
  return {part.offsets[0], part.offsets[0] + part.sizes[0]};
}

using Range = std::pair<std::int64_t, std::int64_t>;

TEST(MeshPart, CutsAsTorchChunkDoes) {
  const Placements shard{{0}};
  EXPECT_EQ(rows(6, shard, {4}, {0}), Range(0, 2));
  EXPECT_EQ(rows(6, shard, {4}, {2}), Range(4, 6));
  EXPECT_EQ(rows(6, shard, {4}, {3}), Range(6, 6));
  EXPECT_EQ(rows(0, shard, {3}, {1}), Range(0, 0));
}

TEST(MeshPart, LaterDimensionsCutWhatEarlierOnesHaveLeft) {
  const Placements both{{0}, {0}};
  EXPECT_EQ(rows(10, both, {2, 2}, {0, 1}), Range(3, 5));
  EXPECT_EQ(rows(10, both, {2, 2}, {1, 0}), Range(5, 8));
}

TEST(MeshPart, AStridedShardCutsBehindTheLaterOnes) {
  const Placements strided{{0, 2}, {0}};
  EXPECT_EQ(rows(10, strided, {2, 2}, {0, 0}), Range(0, 3));
  EXPECT_EQ(rows(10, strided, {2, 2}, {1, 0}), Range(3, 5));
  EXPECT_EQ(rows(10, strided, {2, 2}, {0, 1}), Range(5, 8));
  EXPECT_EQ(rows(10, strided, {2, 2}, {1, 1}), Range(8, 10));
}

TEST(MeshPart, ReplicatesAndOtherDimensionsStayWhole) {
  const MeshPart part =
      part_on_mesh({4, 6}, Placements{kReplicate, {1}}, Numbers{2, 3}, Numbers{1, 2});
  EXPECT_EQ(part.offsets, (Shape{0, 4}));
  EXPECT_EQ(part.sizes, (Shape{4, 2}));
  EXPECT_TRUE(part_on_mesh({}, Placements{kReplicate}, Numbers{2}, Numbers{1}).sizes.empty());
}

TEST(MeshPart, RanksAscendAlongADimensionOrNot) {
  EXPECT_TRUE(ascends_along(0, Numbers{1, 3, 5}, Numbers{3}));
  EXPECT_FALSE(ascends_along(0, Numbers{2, 0, 3, 1}, Numbers{4}));
  EXPECT_FALSE(ascends_along(0, Numbers{2, 3, 0, 1}, Numbers{2, 2}));
  EXPECT_TRUE(ascends_along(1, Numbers{2, 3, 0, 1}, Numbers{2, 2}));
  EXPECT_TRUE(ascends_along(0, Numbers{2, 3, 0, 1}, Numbers{1, 4}));
}

TEST(MeshPart, RefusesWhatDoesNotFit) {
  const auto part = [](const Placements& placements, const Numbers& sizes) {
    return part_on_mesh({10}, placements, sizes, Numbers(sizes.size(), 0));
  };
  expect_error(ErrorKind::kBadInput, {"placements do not fit its mesh"}, [&] {
    part({{0}}, {2, 2});
  });
  expect_error(ErrorKind::kBadInput, {"a dimension that it does not have"},
               [&] { part({{1}}, {2}); });
  expect_error(ErrorKind::kUnsupported, {"split_factor 3"}, [&] { part({{0, 3}, {0}}, {2, 2}); });
  expect_error(ErrorKind::kUnsupported, {"cut it into 1"}, [&] { part({{0, 2}}, {2}); });
}

}  // namespace
}  // namespace reshardfs::mesh_part_tests
