// SPDX-License-Identifier: Apache-2.0
#include "plan/source/packed_units.h"

#include <numeric>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {

PackedUnits::PackedUnits(Shape full, DType dtype)
    : full_(std::move(full)),
      units_(full_),
      type_(mindspore_name(dtype)),
      per_unit_(elements_per_unit(dtype)) {
  if (element_count(full_) == 0) {
    behind_ = per_unit_;  // nothing is inside of a byte
    return;
  }
  while (!units_.empty() && units_.back() * behind_ % per_unit_ != 0) {
    behind_ *= units_.back();
    units_.pop_back();
  }
  if (units_.empty()) {
    throw Error(ErrorKind::kUnsupported,
                "its " + to_string(full_) + " elements of " + type_ + " do not fill whole bytes");
  }
  units_.back() = units_.back() * behind_ / per_unit_;
}

void PackedUnits::refuse(std::size_t dimension, std::int64_t row) const {
  const std::string fitting =
      "at multiples of " + std::to_string(per_unit_ / std::gcd(per_unit_, behind_));
  std::string advice = "it can be cut " + fitting;
  if (dimension > packed()) {
    advice = "cut dimension " + std::to_string(packed()) + " " + fitting;
    if (packed() > 0) advice += ", or one before it anywhere";
  }
  throw Error(ErrorKind::kUnsupported, "its elements of " + type_ + " share bytes, and dimension " +
                                           std::to_string(dimension) + " of " + to_string(full_) +
                                           " is cut at " + std::to_string(row) +
                                           ", inside of a byte; " + advice);
}

std::vector<AxisPartition> PackedUnits::of(const std::vector<AxisPartition>& partitions) const {
  for (std::size_t d = units_.size(); d < partitions.size(); ++d) {
    if (partitions[d].parts() > 1) refuse(d, partitions[d].part_length(0));
  }
  std::vector<AxisPartition> units(partitions.begin(),
                                   partitions.begin() + static_cast<std::ptrdiff_t>(units_.size()));
  auto groups = partitions[packed()].in_groups(behind_, per_unit_);
  if (!groups) refuse(packed(), *partitions[packed()].first_cut_group(behind_, per_unit_));
  units.back() = std::move(*groups);
  return units;
}

Box PackedUnits::of(const Box& box) const {
  for (std::size_t d = units_.size(); d < full_.size(); ++d) {
    if (box.offsets[d] != 0) refuse(d, box.offsets[d]);
    if (box.sizes[d] != full_[d]) refuse(d, box.sizes[d]);
  }
  Box units{
      Shape(box.offsets.begin(), box.offsets.begin() + static_cast<std::ptrdiff_t>(units_.size())),
      Shape(box.sizes.begin(), box.sizes.begin() + static_cast<std::ptrdiff_t>(units_.size()))};
  const std::int64_t begin = units.offsets.back();
  const std::int64_t end = begin + units.sizes.back();
  for (const std::int64_t row : {begin, end}) {
    if (is_inside_byte(row)) refuse(packed(), row);
  }
  units.offsets.back() = begin * behind_ / per_unit_;
  units.sizes.back() = (end - begin) * behind_ / per_unit_;
  return units;
}

}  // namespace reshardfs
