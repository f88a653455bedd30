// SPDX-License-Identifier: Apache-2.0
#include "check/parameter_stats.h"

#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checkpoint.h"
#include "support/ranks.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::memory_set;
using test::record;

std::string float_bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string float_record(const std::string& name, const std::vector<float>& values) {
  return record(name, {static_cast<std::int64_t>(values.size())}, "Float32", float_bytes(values));
}

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> numbers;
  std::vector<float> values(count);
  for (float& value : values) value = numbers(random);
  return values;
}

/// Parameter "w" of 4 ranks in two slices, each of them there twice.
std::shared_ptr<const CheckpointSet> two_slices(const std::vector<float>& lower,
                                                const std::vector<float>& upper) {
  std::map<std::int64_t, std::string> files;
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    files[rank] = float_record("w", rank % 2 == 0 ? lower : upper);
  }
  return memory_set(files);
}

std::vector<ParameterStats> of_files(const CheckpointSet& set, std::size_t jobs = 1) {
  Progress progress;
  std::vector<ParameterStats> stats = file_stats(set, {{}, jobs}, progress);
  EXPECT_EQ(progress.values().bytes, progress.values().total_bytes);
  return stats;
}

std::vector<ParameterStats> of_whole(const std::shared_ptr<const CheckpointSet>& set,
                                     std::size_t jobs) {
  const StageLayouts stage{{"w", Layout{.device_matrix = {2, 2}, .tensor_map = {{0}}}}};
  const DiffSide side(std::make_shared<const SourceTable>(set, Strategy({stage}, 0, false)));
  Progress progress;
  return whole_stats(side, {{}, jobs}, progress);
}

TEST(ParameterStats, JoinRanksWithTheSame) {
  const auto stats = of_files(*two_slices({1, 2}, {3, 0}));
  ASSERT_EQ(stats.size(), 2U);
  EXPECT_EQ(stats[0].ranks, test::ranks({0, 2}));
  EXPECT_EQ(stats[1].ranks, test::ranks({1, 3}));
  EXPECT_EQ(stats[0].stats->mean, 1.5L);
  EXPECT_EQ(stats[1].stats->zeros, 1U);
  EXPECT_EQ(stats[1].shape, Shape{2});
}

TEST(ParameterStats, CountReplicasOnce) {
  const auto stats = of_whole(two_slices({1, 2}, {3, 0}), 1);
  ASSERT_EQ(stats.size(), 1U);
  EXPECT_THAT(stats[0].ranks, ::testing::IsEmpty());
  EXPECT_EQ(stats[0].shape, Shape{4});
  EXPECT_EQ(stats[0].stats->elements, 4U);
  EXPECT_EQ(stats[0].stats->mean, 1.5L);
  EXPECT_EQ(stats[0].stats->max, 3);
}

TEST(ParameterStats, AreTheSameForAnyNumberOfThreads) {
  // Many blocks, and the last ones short.
  const auto set = two_slices(random_values(500'001, 1), random_values(500'001, 2));
  const auto one = of_whole(set, 1);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].stats->elements, 1'000'002U);
  for (const std::size_t jobs : {2U, 3U, 16U}) {
    EXPECT_EQ(of_whole(set, jobs)[0].stats, one[0].stats) << jobs;
    EXPECT_EQ(of_files(*set, jobs)[0].stats, of_files(*set)[0].stats) << jobs;
  }
}

TEST(ParameterStats, LeaveOutTextAndWhatIsNotAskedFor) {
  const auto set = memory_set({{0, float_record("a.w", {1}) + float_record("b.w", {2}) +
                                       record("text", {0}, "str", std::string("a\0\0\0", 4))}});
  const auto all = of_files(*set);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_FALSE(all[2].stats);
  EXPECT_EQ(all[2].dtype, DType::kString);
  Progress progress;
  const auto some = file_stats(*set, {{{"*.w"}, {"b*"}}, 1}, progress);
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].name, "a.w");
  EXPECT_EQ(progress.values().bytes, 4U);
}

}  // namespace
}  // namespace reshardfs
