// SPDX-License-Identifier: Apache-2.0
/// A layout without a shape: into how many parts each dimension is cut, and which parts a rank has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reshardfs/layout.h"

namespace reshardfs {

class DeviceGrid {
 public:
  /// @throws Error kBadInput if the layout is impossible, or the optimizer cuts slices into more
  ///         parts than there are devices to hold them.
  explicit DeviceGrid(const Layout& layout);

  std::int64_t devices() const noexcept { return devices_; }
  /// Parts of each dimension by the tensor map, without the optimizer cut.
  const std::vector<std::int64_t>& map_splits() const noexcept { return map_splits_; }
  /// Parts into which the optimizer cuts each part of dimension 0; 1: no such cut.
  std::int64_t optimizer_parts() const noexcept { return optimizer_parts_; }
  /// Parts of each dimension, with the optimizer cut.
  std::vector<std::int64_t> splits() const;

  /// The part of each dimension that a rank holds. 0 <= local_rank < devices(). O(axes).
  std::vector<std::int64_t> parts_of(std::int64_t local_rank) const;

 private:
  std::vector<std::int64_t> device_matrix_;
  /// Axes of the device matrix from the left: those that cut dimension d, and those that cut none.
  std::vector<std::vector<std::size_t>> cutting_axes_;
  std::vector<std::size_t> free_axes_;
  std::vector<std::int64_t> map_splits_;
  std::int64_t optimizer_parts_ = 1;
  std::int64_t devices_ = 1;
};

}  // namespace reshardfs
