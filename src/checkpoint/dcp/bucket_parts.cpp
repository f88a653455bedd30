// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp/bucket_parts.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "reshardfs/dtype.h"

#include "base/cast.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr std::string_view kEmbeddingWeight = "embedding.word_embeddings.weight";
constexpr std::string_view kOutputWeight = "output_layer.weight";

bool is_weight(const DcpTensor& tensor) {
  const bool is_state = tensor.name.find("optimizer.") != std::string::npos;
  return !is_state && can_cast(tensor.dtype, DType::kFloat32) && !tensor.shape.empty();
}

/// The boxes of one layer and expert, by their offsets: of the cut dimension, if there is one.
struct WeightSlice {
  std::vector<std::size_t> boxes{};
  std::optional<std::size_t> cut{};
};

/// Nothing if more than one dimension is cut, or unevenly.
std::optional<WeightSlice> slice_of(const DcpTable& table, const DcpTensor& tensor,
                                    std::vector<std::size_t> boxes, std::size_t front) {
  const std::size_t dimensions = tensor.shape.size();
  WeightSlice slice;
  const std::span<const std::int64_t> first = table.box_bounds(tensor, boxes.front());
  for (std::size_t d = front; d < dimensions; ++d) {
    if (first[dimensions + d] == tensor.shape[d]) continue;
    if (slice.cut) return std::nullopt;
    slice.cut = d;
  }
  const std::size_t by = slice.cut ? *slice.cut : front;
  std::sort(boxes.begin(), boxes.end(), [&](std::size_t a, std::size_t b) {
    return table.box_bounds(tensor, a)[by] < table.box_bounds(tensor, b)[by];
  });
  for (const std::size_t box : boxes) {
    const auto bounds = table.box_bounds(tensor, box);
    if (!std::equal(bounds.begin() + static_cast<std::ptrdiff_t>(dimensions), bounds.end(),
                    first.begin() + static_cast<std::ptrdiff_t>(dimensions))) {
      return std::nullopt;
    }
  }
  slice.boxes = std::move(boxes);
  return slice;
}

class BucketParts {
 public:
  BucketParts(const DcpTable& table, std::size_t groups) : table_(table), groups_(groups) {}

  std::optional<std::vector<BucketPart>> all(std::string& reason);

 private:
  using Slices =
      std::map<std::pair<std::int64_t, std::int64_t>, WeightSlice>;  ///< by layer and expert

  std::optional<Slices> slices_of(const DcpTensor& tensor) const;
  bool add(std::size_t number, const Slices& slices, std::size_t ranks);
  void add_copy_of_embedding();

  const DcpTable& table_;
  std::size_t groups_;
  std::vector<BucketPart> parts_;
  bool has_output_ = false;
};

std::optional<BucketParts::Slices> BucketParts::slices_of(const DcpTensor& tensor) const {
  const StackedAxes axes = stacked_axes(tensor.name);
  const std::size_t front = axes.count();
  if (tensor.shape.size() <= front) return std::nullopt;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>> boxes;
  for (std::size_t box = 0; box < tensor.boxes; ++box) {
    const auto bounds = table_.box_bounds(tensor, box);
    for (std::size_t d = 0; d < front; ++d) {
      if (bounds[tensor.shape.size() + d] != 1) return std::nullopt;
    }
    boxes[{axes.layers ? bounds[0] : 0, axes.experts ? bounds[front - 1] : 0}].push_back(box);
  }
  Slices slices;
  for (auto& [at, list] : boxes) {
    auto slice = slice_of(table_, tensor, std::move(list), front);
    if (!slice) return std::nullopt;
    slices.emplace(at, std::move(*slice));
  }
  return slices;
}

/// @param ranks that share a tensor which is cut.
bool BucketParts::add(std::size_t number, const Slices& slices, std::size_t ranks) {
  const DcpTensor& tensor = table_.tensors[number];
  const std::size_t front = stacked_axes(tensor.name).count();
  for (const auto& [at, slice] : slices) {
    const std::size_t count = slice.boxes.size();
    // Gate and up are two pieces of each rank's tensor.
    if (count > 1 && (count % ranks != 0 || (count > ranks && slice.cut != front))) return false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      BucketPart part;
      part.tensor = number;
      part.place = registered_place(tensor.name, at.first, at.second);
      part.rank = rank;
      part.ranks = ranks;
      part.is_second = count == 1 && rank > 0;
      for (std::size_t i = count == 1 ? 0 : rank; i < count; i += ranks) {
        part.boxes.push_back(slice.boxes[i]);
        part.elements += box_elements(table_, tensor, slice.boxes[i]);
      }
      if (part.elements > 0) parts_.push_back(std::move(part));
    }
  }
  return true;
}

/// The last stage has its own, if it is the output layer, too.
void BucketParts::add_copy_of_embedding() {
  std::vector<BucketPart> copies;
  for (const BucketPart& part : parts_) {
    if (table_.tensors[part.tensor].name != kEmbeddingWeight) continue;
    copies.push_back(part);
    copies.back().is_copy = true;
    copies.back().place = registered_place(kOutputWeight, 0, 0);
  }
  parts_.insert(parts_.end(), copies.begin(), copies.end());
}

std::optional<std::vector<BucketPart>> BucketParts::all(std::string& reason) {
  std::map<std::size_t, Slices> slices;
  std::size_t ranks = 0;         // that share the model's tensors
  std::size_t expert_ranks = 1;  // that share an expert's
  for (std::size_t i = 0; i < table_.tensors.size(); ++i) {
    const DcpTensor& tensor = table_.tensors[i];
    if (!is_weight(tensor)) continue;
    auto found = slices_of(tensor);
    if (!found) {
      reason = "'" + printable(tensor.name) + "' is not cut as ranks of Megatron-Core cut it";
      return std::nullopt;
    }
    if (found->empty()) continue;
    const std::size_t count = found->begin()->second.boxes.size();
    if (tensor.name == kEmbeddingWeight) ranks = count;
    has_output_ = has_output_ || tensor.name == kOutputWeight;
    const bool is_second_matrix = tensor.name.ends_with(".linear_fc2.weight");
    if (stacked_axes(tensor.name).experts && is_second_matrix) expert_ranks = count;
    slices.emplace(i, std::move(*found));
  }
  if (ranks == 0) {
    reason =
        "the table has no '" + std::string(kEmbeddingWeight) + "', which tells how ranks cut it";
    return std::nullopt;
  }
  for (const auto& [number, found] : slices) {
    const DcpTensor& tensor = table_.tensors[number];
    if (add(number, found, stacked_axes(tensor.name).experts ? expert_ranks : ranks)) continue;
    reason = "'" + printable(tensor.name) + "' is not cut as ranks of Megatron-Core cut it";
    return std::nullopt;
  }
  if (!has_output_ && groups_ > ranks) add_copy_of_embedding();
  std::sort(parts_.begin(), parts_.end(),
            [](const BucketPart& a, const BucketPart& b) { return a.place.order < b.place.order; });
  return std::move(parts_);
}

}  // namespace

std::int64_t box_elements(const DcpTable& table, const DcpTensor& tensor, std::size_t box) {
  std::int64_t elements = 1;
  for (const std::int64_t size : table.box_bounds(tensor, box).last(tensor.shape.size())) {
    elements *= size;
  }
  return elements;
}

std::optional<std::vector<BucketPart>> bucket_parts(const DcpTable& table, std::size_t groups,
                                                    std::string& reason) {
  return BucketParts(table, groups).all(reason);
}

}  // namespace reshardfs
