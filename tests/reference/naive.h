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

struct Layout {
  /// Axis sizes, major first; devices are numbered row-major.
  Numbers device_matrix;
  /// For each dimension the axes that cut it, first axis major, counted from the END of the matrix.
  std::vector<std::vector<int>> tensor_map;
  /// Parts of the further cut along dimension 0; 0: none, -1: one for each device with the slice.
  std::int64_t optimizer_size = 0;
};

/// A box of the full tensor.
struct Box {
  Numbers first;
  Numbers length;

  bool operator==(const Box&) const = default;
};

std::int64_t product(const Numbers& numbers);
std::int64_t device_count(const Layout& layout);

/// Devices that hold the same slice as device 0, before the optimizer cut.
std::int64_t replicas(const Layout& layout);

/// By how much each dimension is divided, the optimizer cut included.
Numbers divisors(const Layout& layout);

/// What a device holds of a tensor of that shape, all of whose dimensions are divisible.
Box box_of(const Numbers& shape, const Layout& layout, std::int64_t device);

/// The flat indices in the full tensor of the box's elements, in C order.
std::vector<std::size_t> elements_of(const Numbers& shape, const Box& box);

/// The bytes of a box of a tensor of elements of `element_size` bytes.
std::string slice(const std::string& full, const Numbers& shape, std::size_t element_size,
                  const Box& box);

}  // namespace naive
