// SPDX-License-Identifier: Apache-2.0
#include "plan/target/shown_elements.h"

#include <cstring>

#include <gtest/gtest.h>

#include "base/cast.h"
#include "support/checkpoint.h"
#include "support/wire.h"

namespace reshardfs::element_view_tests {
namespace {

using test::record;

/// More than one block of elements.
constexpr std::int64_t kElements = 3 * 65536 + 7;

std::string floats() {
  std::string out;
  for (std::int64_t i = 0; i < kElements; ++i) {
    const float value = static_cast<float>(i) * 0.37F - 1000.0F;
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return out;
}

std::string converted(const std::string& from, DType dtype) {
  std::string out(static_cast<std::size_t>(kElements * element_size(dtype)), '?');
  cast_elements(DType::kFloat32, reinterpret_cast<const std::byte*>(from.data()), dtype,
                reinterpret_cast<std::byte*>(out.data()), static_cast<std::size_t>(kElements));
  return out;
}

std::string read(const ShownElements& view, std::uint64_t offset, std::size_t count) {
  std::vector<std::byte> out(count);
  ReadBatch batch;
  view.read(offset, out, batch);
  return test::text_of(out);
}

class ShownElementsOf : public ::testing::TestWithParam<DType> {};

TEST_P(ShownElementsOf, ConvertsAnyRange) {
  const std::string from = floats();
  const auto set = test::memory_set({{0, record("w", {kElements}, "Float32", from)}});
  const RankFile& file = set->files().front();
  const ShownElements view(ShownTensor(single_cell_grid({&file, &file.index->entries().front()})),
                           GetParam());
  const std::string whole = converted(from, GetParam());
  ASSERT_EQ(view.size(), whole.size());
  EXPECT_TRUE(read(view, 0, whole.size()) == whole);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t end = 0; end < 9; ++end) {
      const std::size_t count = whole.size() - begin - end;
      EXPECT_TRUE(read(view, begin, count) == whole.substr(begin, count)) << begin << ' ' << end;
    }
    for (std::size_t count = 0; count < 20; ++count) {
      EXPECT_EQ(read(view, 1000 + begin, count), whole.substr(1000 + begin, count));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, ShownElementsOf,
                         ::testing::Values(DType::kFloat16, DType::kBFloat16, DType::kFloat64));

TEST(ShownElements, RoundsInEachOfTwoConversions) {
  const std::string from = floats();
  const auto set = test::memory_set({{0, record("w", {kElements}, "Float32", from)}});
  const RankFile& file = set->files().front();
  const ShownTensor stored(single_cell_grid({&file, &file.index->entries().front()}));
  const ShownElements view(stored, DType::kBFloat16, DType::kFloat16);
  std::string through = converted(from, DType::kBFloat16);
  std::string expected(static_cast<std::size_t>(kElements * 2), '?');
  cast_elements(DType::kBFloat16, reinterpret_cast<const std::byte*>(through.data()),
                DType::kFloat16, reinterpret_cast<std::byte*>(expected.data()),
                static_cast<std::size_t>(kElements));
  ASSERT_NE(expected, converted(from, DType::kFloat16));
  ASSERT_EQ(view.size(), expected.size());
  EXPECT_TRUE(read(view, 0, expected.size()) == expected);
  for (std::size_t begin = 0; begin < 5; ++begin) {
    EXPECT_EQ(read(view, begin, 1001), expected.substr(begin, 1001));
  }
  EXPECT_FALSE(view.whole_cell());
}

TEST(ShownElements, WidensBetweenTwoConversions) {
  const std::string from = floats();
  const auto set = test::memory_set({{0, record("w", {kElements}, "Float32", from)}});
  const RankFile& file = set->files().front();
  const ShownElements view(ShownTensor(single_cell_grid({&file, &file.index->entries().front()})),
                           DType::kFloat64, DType::kFloat16);
  EXPECT_TRUE(read(view, 0, view.size()) == converted(from, DType::kFloat16));
}

TEST(ShownElements, IsAWholeSliceOfTheSourceOnlyInTheSourcesType) {
  const auto set = test::memory_set({{0, record("w", {2}, "Float32", "12345678")}});
  const RankFile& file = set->files().front();
  const Holding holding{&file, &file.index->entries().front()};
  const ShownElements same(ShownTensor(single_cell_grid(holding)), DType::kFloat32);
  ASSERT_TRUE(same.whole_cell());
  EXPECT_EQ(same.whole_cell().file, &file);
  const ShownElements other(ShownTensor(single_cell_grid(holding)), DType::kFloat64);
  EXPECT_FALSE(other.whole_cell());
}

TEST(ShownElements, ReadsNoMoreThanTheElementThatAByteIsPartOf) {
  RankFile file = test::rank_file(
      0, std::make_shared<test::MemorySource>(record("w", {3}, "Float32", "abcdefghijkl")));
  const auto counting = std::make_shared<test::CountingSource>(file.source);
  file.source = counting;
  const ShownElements view(ShownTensor(single_cell_grid({&file, &file.index->entries().front()})),
                           DType::kBFloat16);
  read(view, 3, 1);
  EXPECT_EQ(counting->bytes(), 4U);
}

TEST(ShownElements, ReadsLargeBlocksOfItsSource) {
  const auto inner =
      std::make_shared<test::MemorySource>(record("w", {kElements}, "Float32", floats()));
  RankFile file = test::rank_file(0, inner);
  const auto counting = std::make_shared<test::CountingSource>(inner);
  file.source = counting;
  const ShownElements view(ShownTensor(single_cell_grid({&file, &file.index->entries().front()})),
                           DType::kBFloat16);
  read(view, 0, view.size());
  EXPECT_EQ(counting->reads(), 13U);
  EXPECT_EQ(counting->bytes(), static_cast<std::uint64_t>(kElements) * 4);
}

}  // namespace
}  // namespace reshardfs::element_view_tests
