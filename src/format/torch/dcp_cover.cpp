// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "format/torch/dcp_table.h"
#include "layout/box_set.h"

namespace reshardfs {
namespace {

std::vector<Box> boxes_of(const DcpTable& table, const DcpTensor& tensor) {
  const auto dimensions = static_cast<std::ptrdiff_t>(tensor.shape.size());
  std::vector<Box> boxes(tensor.boxes);
  for (std::size_t i = 0; i < tensor.boxes; ++i) {
    const auto bounds = table.box_bounds(tensor, i);
    boxes[i].offsets.assign(bounds.begin(), bounds.begin() + dimensions);
    boxes[i].sizes.assign(bounds.begin() + dimensions, bounds.end());
  }
  return boxes;
}

}  // namespace

/// Boxes that have as many elements as the tensor and do not overlap are all of it.
std::optional<std::string> cover_problem(const DcpTable& table, const DcpTensor& tensor,
                                         bool replicas) {
  std::vector<Box> boxes = boxes_of(table, tensor);
  if (replicas) {
    std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) {
      return std::tie(a.offsets, a.sizes) < std::tie(b.offsets, b.sizes);
    });
    boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
  }
  const std::int64_t wanted = element_count(tensor.shape);
  std::int64_t covered = 0;
  for (const Box& box : boxes) {
    // In bounds, so that none has more elements than the tensor.
    const std::int64_t elements = element_count(box.sizes);
    if (elements > wanted - covered) return "its chunks overlap";
    covered += elements;
  }
  if (covered != wanted) {
    return "its chunks have " + std::to_string(covered) + " of its " + std::to_string(wanted) +
           " elements";
  }
  if (boxes.size() > 1 && BoxSet(tensor.shape, boxes).overlap()) return "its chunks overlap";
  return std::nullopt;
}

}  // namespace reshardfs
