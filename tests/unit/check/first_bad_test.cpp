// SPDX-License-Identifier: Apache-2.0
#include "check/first_bad.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/checkpoint.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// A file of rank 3 with these elements as one parameter.
std::shared_ptr<const CheckpointSet> set_of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return test::memory_set(
      {{3, test::record("w", {static_cast<std::int64_t>(values.size())}, "Float32", bytes)}});
}

std::optional<std::uint64_t> first_in_file(const std::vector<float>& values) {
  const auto set = set_of(values);
  const RankFile& file = set->files().front();
  const auto found = first_bad_element({&file, &file.index->entries().front()});
  if (!found) return std::nullopt;
  EXPECT_EQ(found->rank, Rank(3));
  return found->index;
}

TEST(FirstBadElement, IsTheFirstOfSeveral) {
  // Around blocks of 65,536 elements.
  for (const std::size_t at : {0U, 1U, 65535U, 65536U, 131071U, 199999U}) {
    std::vector<float> values(200000, 1.0F);
    values[at] = kNan;
    values.back() = -kInf;
    EXPECT_EQ(first_in_file(values), at);
  }
}

TEST(FirstBadElement, IsInfiniteToo) {
  EXPECT_EQ(first_in_file({0, -kInf, kNan}), 1U);
}

TEST(FirstBadElement, IsNotThereIfAllAreFinite) {
  EXPECT_EQ(first_in_file({0, -1, std::numeric_limits<float>::max()}), std::nullopt);
  EXPECT_EQ(first_in_file({}), std::nullopt);
}

}  // namespace
}  // namespace reshardfs
