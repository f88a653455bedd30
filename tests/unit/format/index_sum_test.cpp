// SPDX-License-Identifier: Apache-2.0
#include "format/index/index_sum.h"

#include <functional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

std::vector<TensorEntry> entries() {
  TensorEntry first{.name = "ab", .shape = {2, 3}, .extents = {{10, 24}}, .content_bytes = 24};
  TensorEntry second{
      .name = "c", .shape = {6}, .extents = {{40, 12}, {60, 12}}, .content_bytes = 24};
  return {first, second};
}

TEST(IndexSum, TellsEveryDifference) {
  const std::vector<std::function<void(std::vector<TensorEntry>&)>> changes{
      [](auto&) {},
      [](auto& list) { list[0].name = "abc"; },
      [](auto& list) { list[0].dtype = DType::kInt8; },
      [](auto& list) { list[0].encoding = ContentEncoding::kFloat32AsBFloat16; },
      [](auto& list) {
        list[0].shape = {3, 2};
      },
      [](auto& list) { list[0].shape = {6}; },
      [](auto& list) {
        list[0].extents[0] = {11, 24};
      },
      [](auto& list) {
        list[1].extents = {{40, 24}};
      },
      [](auto& list) { list[0].content_bytes = 23; },
      [](auto& list) { list.pop_back(); },
      [](auto& list) { std::swap(list[0], list[1]); }};
  std::set<std::uint64_t> sums;
  for (const auto& change : changes) {
    std::vector<TensorEntry> list = entries();
    change(list);
    EXPECT_EQ(index_sum(FileIndex(list)), index_sum(FileIndex(list)));
    sums.insert(index_sum(FileIndex(list)));
  }
  EXPECT_EQ(sums.size(), changes.size());
}

TEST(IndexSum, TellsWherePiecesAre) {
  std::set<std::uint64_t> sums{index_sum(FileIndex(entries()))};
  const std::vector<Shape> places{{0, 0}, {0, 1}, {1, 0}};
  for (const Shape& offsets : places) {
    BoxOffsets pieces;
    pieces.add(0, offsets);
    sums.insert(index_sum(FileIndex(entries(), {}, pieces)));
  }
  EXPECT_EQ(sums.size(), places.size() + 1);
}

}  // namespace
}  // namespace reshardfs
