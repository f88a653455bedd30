// SPDX-License-Identifier: Apache-2.0
/// One device matrix in which the layouts of all parameters can be written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/strategy.h"

#include "strategy/derive_cuts.h"

namespace reshardfs {

class CommonAxes {
 public:
  struct Axis {
    std::string name;
    std::int64_t stride = 1;  ///< device numbers from one device along the axis to the next
    std::int64_t size = 1;
  };

  /// The device matrix of the strategy if all its layouts have the same, else the coarsest one that
  /// has the axes of all cuts.
  /// @throws Error kUnsupported if there is none; names two parameters and their layouts.
  explicit CommonAxes(const Strategy& strategy);

  /// Major first.
  const std::vector<Axis>& axes() const noexcept { return axes_; }
  /// The names of the axes that a group of devices is, major first.
  std::vector<std::string> names_of(const DeviceGroup& group) const;

 private:
  bool is_cut(const Axis& axis, const Strategy& strategy) const;
  void name_axes(const Strategy& strategy);

  std::vector<Axis> axes_;
};

}  // namespace reshardfs
