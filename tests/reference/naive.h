// SPDX-License-Identifier: Apache-2.0
/// Which part of a full tensor a device holds, element by element in plain loops. The model that
/// reshardfs is judged by; shares no code with it and is slow on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace naive {

using Numbers = std::vector<std::int64_t>;

/// How the parts of a dimension have their lengths.
struct Split {
  /// As numpy.array_split: those that come first are one longer, where it does not divide.
  bool balanced = false;
  /// The length of each part; empty: equal, or balanced.
  Numbers lengths{};
};

struct Layout {
  /// Axis sizes, major first; devices are numbered row-major.
  Numbers device_matrix{};
  /// For each dimension the axes that cut it, first axis major, counted from the END of the matrix.
  std::vector<std::vector<int>> tensor_map{};
  /// Parts of the further cut along dimension 0; 0: none, -1: one for each device with the slice.
  std::int64_t optimizer_size = 0;
  /// Empty (all equal), or one for each dimension.
  std::vector<Split> splits{};
  /// Dimension 0 is so many fields, one behind the other, and every part (of the optimizer's cut
  /// too) has an equal part of each.
  std::int64_t fields = 1;
};

/// What a device holds: for each dimension the indices in the full tensor, in the order in which it
/// stores them.
using Held = std::vector<Numbers>;

std::int64_t product(const Numbers& numbers);
std::int64_t device_count(const Layout& layout);

/// Parts of each dimension by the tensor map alone.
Numbers parts(const Layout& layout);

/// Devices that hold the same slice as device 0, before the optimizer cut.
std::int64_t replicas(const Layout& layout);

/// What the length of a part must be a multiple of, in each dimension.
Numbers units(const Layout& layout);

/// What a device holds of a tensor of that shape, which must fit the layout.
Held held_by(const Numbers& shape, const Layout& layout, std::int64_t device);

Numbers shape_of(const Held& held);

/// The flat indices in the full tensor of what is held, in the order of the slice's elements.
std::vector<std::size_t> elements_of(const Numbers& shape, const Held& held);

/// The bytes of a slice of a tensor of elements of `element_size` bytes.
std::string slice(const std::string& full, const Numbers& shape, std::size_t element_size,
                  const Held& held);

}  // namespace naive
