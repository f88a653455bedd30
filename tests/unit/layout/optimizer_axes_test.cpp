// SPDX-License-Identifier: Apache-2.0
#include "layout/optimizer_axes.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "layout/device_grid.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

Layout made(const std::vector<std::int64_t>& matrix, const TensorMap& map,
            std::int64_t optimizer = 0) {
  return {.device_matrix = matrix, .tensor_map = map, .optimizer_shard_size = optimizer};
}

// What MindSpore's own function gives for these.
TEST(WithOptimizerAxes, AppendsAllFreeAxesFromTheLeft) {
  EXPECT_EQ(with_optimizer_axes(made({4, 2}, {{0}, {}}, -1)), made({4, 2}, {{0, 1}, {}}));
  EXPECT_EQ(with_optimizer_axes(made({8}, {{}, {}}, -1)), made({8}, {{0}, {}}));
  EXPECT_EQ(with_optimizer_axes(made({2, 2, 2}, {{}, {1}}, 4)), made({2, 2, 2}, {{2, 0}, {1}}));
}

TEST(WithOptimizerAxes, LeavesTheFirstAxesToTheReplicas) {
  EXPECT_EQ(with_optimizer_axes(made({2, 2, 2}, {{0}, {}}, 2)), made({2, 2, 2}, {{0, 1}, {}}));
  EXPECT_EQ(with_optimizer_axes(made({4, 2}, {{}}, 2)), made({4, 2}, {{0}}));
}

TEST(WithOptimizerAxes, SplitsAnAxisOfWhichAPartRemains) {
  EXPECT_EQ(with_optimizer_axes(made({8, 2}, {{0}, {}}, 4)), made({2, 4, 2}, {{0, 1}, {}}));
  EXPECT_EQ(with_optimizer_axes(made({2, 4, 3}, {{2}, {}}, 6)),
            made({2, 2, 2, 3}, {{3, 1, 0}, {}}));
}

TEST(WithOptimizerAxes, KeepsTheMapWhereNothingIsCut) {
  for (const std::int64_t optimizer : {0, 1}) {
    EXPECT_EQ(with_optimizer_axes(made({2, 1, 2}, {{2, 0}, {}}, optimizer)),
              made({2, 1, 2}, {{2, 0}, {}}));
  }
  EXPECT_EQ(with_optimizer_axes(made({4}, {}, -1)), made({4}, {}));
}

TEST(WithOptimizerAxes, RefusesACutThatNoAxesState) {
  test::expect_error(ErrorKind::kUnsupported, {"into 2 parts (device matrix [2, 3]"}, [] {
    with_optimizer_axes(made({2, 3}, {{}, {}}, 2));
  });
}

/// Every device has the same part of each dimension, as both layouts say it.
TEST(WithOptimizerAxes, GivesEveryDeviceTheSameSlice) {
  std::mt19937 random(20261122);
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  int stated = 0;
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    Layout layout;
    std::vector<int> axes;
    for (std::size_t i = 0, count = 1 + below(5); i < count; ++i) {
      layout.device_matrix.push_back(1 + static_cast<std::int64_t>(below(5)));
      axes.push_back(static_cast<int>(i));
    }
    layout.tensor_map.resize(1 + below(3));
    std::shuffle(axes.begin(), axes.end(), random);
    axes.resize(below(axes.size() + 1));
    for (const int axis : axes) layout.tensor_map[below(layout.tensor_map.size())].push_back(axis);
    const std::int64_t devices = device_count(layout);
    std::int64_t replicas = devices;
    const DeviceGrid uncut(layout);
    for (const std::int64_t parts : uncut.map_splits()) replicas /= parts;
    do {
      layout.optimizer_shard_size =
          1 + static_cast<std::int64_t>(below(static_cast<std::size_t>(replicas)));
    } while (replicas % layout.optimizer_shard_size != 0);
    if (layout.optimizer_shard_size == replicas) layout.optimizer_shard_size = -1;

    Layout other;
    try {
      other = with_optimizer_axes(layout);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
      ++refused;
      continue;
    }
    ++stated;
    EXPECT_EQ(other.optimizer_shard_size, 0);
    const DeviceGrid before(layout);
    const DeviceGrid after(other);
    ASSERT_EQ(after.splits(), before.splits()) << to_string(layout);
    for (std::int64_t device = 0; device < devices; ++device) {
      ASSERT_EQ(after.parts_of(device), before.parts_of(device)) << to_string(layout) << device;
    }
  }
  EXPECT_GT(stated, 2000);
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace reshardfs
