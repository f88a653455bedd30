// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/placed_part.h"

#include "base/checked.h"

namespace reshardfs {
namespace {

std::int64_t whole_length(std::int64_t length, std::int64_t count) {
  return mul_or_throw(length, count, "the length of the whole tensor");
}

TorchTensor cut_rows(const TorchTensor& tensor, std::int64_t first, std::int64_t count) {
  TorchTensor rows = tensor;
  rows.name.clear();
  rows.shape[0] = count;
  if (count > 0) rows.first += first * rows.strides[0];
  return rows;
}

void add_expert(PlacedPart& part, const OneOf& expert) {
  part.full_shape.insert(part.full_shape.begin(), expert.count);
  for (TorchTensor& box : part.boxes) {
    box.shape.insert(box.shape.begin(), 1);
    box.strides.insert(box.strides.begin(), 1);  // never used
  }
  for (Shape& offsets : part.offsets) offsets.insert(offsets.begin(), expert.number);
}

}  // namespace

PlacedPart place_part(const TorchTensor& tensor, MegatronCut cut, const OneOf& rank,
                      const std::optional<OneOf>& expert) {
  PlacedPart part;
  part.full_shape = tensor.shape;
  const std::size_t dimension = cut == MegatronCut::kColumns ? 1 : 0;
  Shape offsets(tensor.shape.size(), 0);
  if (cut != MegatronCut::kWhole) {
    part.full_shape[dimension] = whole_length(tensor.shape[dimension], rank.count);
    offsets[dimension] = whole_length(tensor.shape[dimension], rank.number);
  }
  if (cut == MegatronCut::kGatedRows) {
    const std::int64_t half = tensor.shape[0] / 2;
    part.boxes = {cut_rows(tensor, 0, half), cut_rows(tensor, half, half)};
    offsets[0] = half * rank.number;
    part.offsets = {offsets, offsets};
    part.offsets[1][0] += half * rank.count;
  } else {
    part.boxes = {tensor};
    part.boxes[0].name.clear();
    part.offsets = {offsets};
  }
  if (expert) add_expert(part, *expert);
  return part;
}

}  // namespace reshardfs
