// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_reformulated.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "layout/regions.h"

namespace reshardfs {
namespace {

/// Megatron-Core's have five at most, with the layers and the experts. One chunk becomes 2n - 1
/// boxes, which bounds what a small table can make of itself.
constexpr std::size_t kMostReformulatedDimensions = 8;

/// Nothing if the one shape cannot be what is stored of the other.
std::optional<Shape> block_shape(const Shape& stored, const Shape& original) {
  if (stored.size() != original.size() + 1) return std::nullopt;
  Shape block;
  std::optional<std::int64_t> elements = 1;
  for (std::size_t d = 0; d < original.size() && elements; ++d) {
    if (stored[d] == 0 || original[d] % stored[d] != 0) return std::nullopt;
    block.push_back(original[d] / stored[d]);
    elements = checked_mul(*elements, block.back());
  }
  return elements == stored.back() ? std::optional(std::move(block)) : std::nullopt;
}

/// Whether each box is in one block.
bool are_in_blocks(const DcpTable& table, const DcpTensor& tensor) {
  const std::size_t blocks = tensor.shape.size() - 1;
  for (std::size_t i = 0; i < tensor.boxes; ++i) {
    for (const std::int64_t size : table.box_bounds(tensor, i).subspan(blocks + 1, blocks)) {
      if (size != 1) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<std::string> undo_reformulation(DcpTable& table, DcpTensor& tensor,
                                              const Shape& original) {
  const auto block = block_shape(tensor.shape, original);
  if (!block) {
    return "Megatron-Core's table gives it the shape " + to_string(original) +
           ", which cannot be stored as " + to_string(tensor.shape);
  }
  if (block->size() > kMostReformulatedDimensions) {
    return "it has " + std::to_string(block->size()) +
           " dimensions, and is stored in another shape than it has";
  }
  if (!are_in_blocks(table, tensor)) {
    return "it is stored in another shape than it has, and a chunk has elements of two blocks";
  }
  const auto first_box = static_cast<std::ptrdiff_t>(tensor.first_box);
  const auto first_bound = static_cast<std::ptrdiff_t>(tensor.first_bound);
  const std::vector<DcpPlace> places(table.places.begin() + first_box, table.places.end());
  const std::vector<std::int64_t> bounds(table.bounds.begin() + first_bound, table.bounds.end());
  table.places.resize(tensor.first_box);
  table.bounds.resize(tensor.first_bound);
  const std::size_t dimensions = block->size();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto chunk = std::span(bounds).subspan(i * 2 * (dimensions + 1), 2 * (dimensions + 1));
    const std::int64_t begin = chunk[dimensions];
    ItemRange run{0, chunk.back()};
    if (run.elements == 0) continue;
    for_each_region(begin, run.elements, 0, *block, [&](const Region& region) {
      table.runs.emplace(table.places.size(), run);
      table.places.push_back(places[i]);
      for (std::size_t d = 0; d < dimensions; ++d) {
        table.bounds.push_back(chunk[d] * (*block)[d] + region.ranges[d].begin);
      }
      for (const IndexRange& range : region.ranges) table.bounds.push_back(range.count);
      run.first += region.elements();
    });
  }
  tensor.boxes = table.places.size() - tensor.first_box;
  tensor.shape = original;
  return std::nullopt;
}

}  // namespace reshardfs
