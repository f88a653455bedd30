// SPDX-License-Identifier: Apache-2.0
#include "layout/slicing.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/checked.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

void require_dimensions(const Layout& layout, const Shape& shape) {
  if (layout.tensor_map.size() == shape.size()) return;
  throw Error(ErrorKind::kBadInput, "its layout is for " +
                                        counted(layout.tensor_map.size(), "dimension") +
                                        ", but its shape is " + to_string(shape));
}

[[noreturn]] void refuse_dimension(std::size_t dimension, const std::string& what) {
  throw Error(ErrorKind::kBadInput, "dimension " + std::to_string(dimension) + what);
}

/// MindSpore's param_split_shape: the length of dimension 0 for each distinct slice, in the order
/// of the slices (row-major over all dimensions). Empty if there is none.
std::vector<std::int64_t> lengths_by_slice(const Layout& layout, const DeviceGrid& grid) {
  std::vector<std::int64_t> lengths;
  for (const auto& list : layout.param_split_shape) {
    lengths.insert(lengths.end(), list.begin(), list.end());
  }
  if (lengths.empty() || grid.map_splits().empty()) return {};
  const auto parts = static_cast<std::size_t>(grid.map_splits()[0]);
  if (lengths.size() == parts || lengths.size() % parts != 0) return lengths;
  // Slices beside each other in the other dimensions have the same rows.
  const std::size_t beside = lengths.size() / parts;
  std::vector<std::int64_t> by_part;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (i % beside == 0) by_part.push_back(lengths[i]);
    if (lengths[i] != by_part.back()) return lengths;  // refused by its number
  }
  return by_part;
}

/// How a layout cuts dimension d: explicit lengths (empty: none) or balanced.
DimensionSplit split_of(const Layout& layout, const DeviceGrid& grid, std::size_t d) {
  DimensionSplit split;
  if (d < layout.uneven.size()) split = layout.uneven[d];
  if (d == 0 && split.lengths.empty() && !split.balanced) {
    split.lengths = lengths_by_slice(layout, grid);
  }
  const auto parts = static_cast<std::size_t>(grid.map_splits()[d]);
  if (!split.lengths.empty() && split.lengths.size() != parts) {
    refuse_dimension(d, " is cut into " + std::to_string(parts) + " parts, but " +
                            std::to_string(split.lengths.size()) + " lengths are given");
  }
  return split;
}

bool is_even(const DimensionSplit& split) {
  return !split.balanced && split.lengths.empty();
}

std::int64_t sum(const std::vector<std::int64_t>& lengths) {
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    total = add_or_throw(total, length, "the sum of the parts' lengths");
  }
  return total;
}

/// Every part, cut again into `pieces` equal pieces.
std::vector<std::int64_t> cut_again(const std::vector<std::int64_t>& lengths, std::int64_t pieces,
                                    std::size_t dimension) {
  std::vector<std::int64_t> out;
  for (const std::int64_t length : lengths) {
    if (length % pieces != 0) {
      refuse_dimension(dimension, " has a part of " + std::to_string(length) +
                                      " elements, which the optimizer cannot cut into " +
                                      std::to_string(pieces) + " equal parts");
    }
    out.insert(out.end(), static_cast<std::size_t>(pieces), length / pieces);
  }
  return out;
}

AxisPartition uneven_partition(const DimensionSplit& split, std::int64_t size, std::int64_t parts,
                               std::int64_t optimizer_parts, std::size_t dimension) {
  std::vector<std::int64_t> lengths = split.lengths;
  if (lengths.empty()) {
    for (std::int64_t part = 0; part < parts; ++part) {
      lengths.push_back(size / parts + (part < size % parts ? 1 : 0));
    }
  }
  if (sum(lengths) != size) {
    refuse_dimension(dimension, " has " + std::to_string(size) +
                                    " elements, but the parts' "
                                    "lengths add up to " +
                                    std::to_string(sum(lengths)));
  }
  return AxisPartition::of_lengths(cut_again(lengths, optimizer_parts, dimension));
}

/// Dimension d of `shape`, cut as the layout says.
AxisPartition partition_of(const Layout& layout, const DeviceGrid& grid, std::size_t d,
                           const Shape& shape) {
  const std::int64_t optimizer_parts = d == 0 ? grid.optimizer_parts() : 1;
  const std::int64_t parts = grid.splits()[d];
  const DimensionSplit split = split_of(layout, grid, d);
  const std::int64_t fields = d == 0 ? std::max<std::int64_t>(layout.field, 1) : 1;
  if (!is_even(split)) {
    if (fields > 1) refuse_dimension(d, " cannot be cut by fields and unevenly");
    return uneven_partition(split, shape[d], grid.map_splits()[d], optimizer_parts, d);
  }
  const std::int64_t pieces = mul_or_throw(parts, fields, "a split");
  if (shape[d] % pieces != 0) {
    refuse_dimension(d, " of its shape " + to_string(shape) + " has " + std::to_string(shape[d]) +
                            " elements, which cannot be cut into " + std::to_string(parts) +
                            " equal parts" +
                            (fields > 1 ? " of " + std::to_string(fields) + " fields" : ""));
  }
  return fields > 1 ? AxisPartition::by_field(shape[d], fields, parts)
                    : AxisPartition::even(shape[d], parts);
}

/// The length of a balanced dimension: the sum of its parts, each seen on some rank.
std::int64_t observed_length(const DeviceGrid& grid, std::size_t dimension,
                             const std::vector<RankSlice>& slices) {
  std::map<std::int64_t, std::int64_t> lengths;
  for (const auto& [rank, shape] : slices) {
    lengths.emplace(grid.parts_of(rank)[dimension], shape[dimension]);
  }
  const std::int64_t parts = grid.splits()[dimension];
  std::int64_t total = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto found = lengths.find(part);
    if (found == lengths.end()) {
      throw Error(ErrorKind::kMissing, "no source rank holds part " + std::to_string(part) +
                                           " of dimension " + std::to_string(dimension) +
                                           ", without which its length is not known");
    }
    total = add_or_throw(total, found->second, "the full shape");
  }
  return total;
}

}  // namespace

Shape full_shape_of(const Layout& layout, const std::vector<RankSlice>& slices) {
  const DeviceGrid grid(layout);
  for (const auto& [rank, shape] : slices) require_dimensions(layout, shape);
  Shape full = slices.front().second;
  for (std::size_t d = 0; d < full.size(); ++d) {
    const DimensionSplit split = split_of(layout, grid, d);
    if (!split.lengths.empty()) {
      full[d] = sum(split.lengths);
    } else if (split.balanced) {
      full[d] = observed_length(grid, d, slices);
    } else {
      full[d] = mul_or_throw(full[d], grid.splits()[d], "the full shape");
    }
  }
  return full;
}

Slicing::Slicing(const Layout& layout, const Shape& full_shape)
    : grid_(layout), full_shape_(full_shape) {
  require_dimensions(layout, full_shape);
  // At most one for each device.
  for (const std::int64_t parts : grid_.splits()) cell_count_ *= parts;
  for (std::size_t d = 0; d < full_shape.size(); ++d) {
    partitions_.push_back(partition_of(layout, grid_, d, full_shape));
  }
}

Layout whole_layout(std::size_t devices, std::size_t dimensions) {
  Layout layout;
  layout.device_matrix = {static_cast<std::int64_t>(devices)};
  layout.tensor_map.resize(dimensions);
  return layout;
}

Slicing Slicing::whole(const Shape& full_shape) {
  return {whole_layout(1, full_shape.size()), full_shape};
}

std::int64_t Slicing::cell_of(std::int64_t local_rank) const {
  const std::vector<std::int64_t> parts = parts_of(local_rank);
  std::int64_t cell = 0;
  for (std::size_t d = 0; d < parts.size(); ++d) cell = cell * partitions_[d].parts() + parts[d];
  return cell;
}

Shape Slicing::slice_shape(std::int64_t local_rank) const {
  Shape shape = parts_of(local_rank);
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = partitions_[d].part_length(shape[d]);
  return shape;
}

}  // namespace reshardfs
