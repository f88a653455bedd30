// SPDX-License-Identifier: Apache-2.0
#include "naive.h"

namespace naive {
namespace {

/// Row-major coordinates of a number in a grid.
Numbers coordinates(const Numbers& sizes, std::int64_t number) {
  Numbers out(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0;) {
    out[i] = number % sizes[i];
    number /= sizes[i];
  }
  return out;
}

std::size_t axis_index(const Layout& layout, int axis) {
  return layout.device_matrix.size() - 1 - static_cast<std::size_t>(axis);
}

/// Parts of each dimension by the tensor map alone.
Numbers splits(const Layout& layout) {
  Numbers out;
  for (const auto& axes : layout.tensor_map) {
    std::int64_t parts = 1;
    for (const int axis : axes) parts *= layout.device_matrix[axis_index(layout, axis)];
    out.push_back(parts);
  }
  return out;
}

/// Which of the parts of each dimension the device has.
Numbers position(const Layout& layout, std::int64_t device) {
  const Numbers place = coordinates(layout.device_matrix, device);
  Numbers out;
  for (const auto& axes : layout.tensor_map) {
    std::int64_t part = 0;
    for (const int axis : axes) {
      const std::size_t index = axis_index(layout, axis);
      part = part * layout.device_matrix[index] + place[index];
    }
    out.push_back(part);
  }
  return out;
}

std::int64_t optimizer_parts(const Layout& layout) {
  if (layout.optimizer_size == -1) return replicas(layout);
  return layout.optimizer_size == 0 ? 1 : layout.optimizer_size;
}

}  // namespace

std::int64_t product(const Numbers& numbers) {
  std::int64_t out = 1;
  for (const std::int64_t number : numbers) out *= number;
  return out;
}

std::int64_t device_count(const Layout& layout) {
  return product(layout.device_matrix);
}

std::int64_t replicas(const Layout& layout) {
  std::int64_t count = 0;
  for (std::int64_t other = 0; other < device_count(layout); ++other) {
    if (position(layout, other) == position(layout, 0)) ++count;
  }
  return count;
}

Numbers divisors(const Layout& layout) {
  Numbers out = splits(layout);
  out[0] *= optimizer_parts(layout);
  return out;
}

Box box_of(const Numbers& shape, const Layout& layout, std::int64_t device) {
  const Numbers parts = splits(layout);
  const Numbers own = position(layout, device);
  Box box;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    box.length.push_back(shape[i] / parts[i]);
    box.first.push_back(box.length[i] * own[i]);
  }
  // The part is the device's place among those with the same slice, ascending, modulo the size.
  std::int64_t place = 0;
  for (std::int64_t other = 0; other < device; ++other) {
    if (position(layout, other) == own) ++place;
  }
  const std::int64_t cut = optimizer_parts(layout);
  box.length[0] /= cut;
  box.first[0] += box.length[0] * (place % cut);
  return box;
}

std::vector<std::size_t> elements_of(const Numbers& shape, const Box& box) {
  std::vector<std::size_t> out;
  const std::int64_t count = product(box.length);
  for (std::int64_t number = 0; number < count; ++number) {
    const Numbers inside = coordinates(box.length, number);
    std::int64_t flat = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      flat = flat * shape[i] + box.first[i] + inside[i];
    }
    out.push_back(static_cast<std::size_t>(flat));
  }
  return out;
}

std::string slice(const std::string& full, const Numbers& shape, std::size_t element_size,
                  const Box& box) {
  std::string out;
  for (const std::size_t element : elements_of(shape, box)) {
    out.append(full, element * element_size, element_size);
  }
  return out;
}

}  // namespace naive
