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

/// Its place among the devices with the same slice, ascending, modulo the number of parts.
std::int64_t optimizer_part(const Layout& layout, std::int64_t device) {
  std::int64_t place = 0;
  for (std::int64_t other = 0; other < device; ++other) {
    if (position(layout, other) == position(layout, device)) ++place;
  }
  return place % optimizer_parts(layout);
}

/// The length of each part of a dimension.
Numbers lengths(const Layout& layout, std::size_t dimension, std::int64_t size) {
  const Split split = layout.splits.empty() ? Split{} : layout.splits[dimension];
  if (!split.lengths.empty()) return split.lengths;
  const std::int64_t count = parts(layout)[dimension];
  Numbers out(static_cast<std::size_t>(count), size / count);
  if (!split.balanced) return out;
  for (std::int64_t longer = 0; longer < size % count; ++longer) {
    ++out[static_cast<std::size_t>(longer)];
  }
  return out;
}

Numbers range(std::int64_t first, std::int64_t length) {
  Numbers out;
  for (std::int64_t i = 0; i < length; ++i) out.push_back(first + i);
  return out;
}

/// One of `pieces` equal pieces, one behind the other.
Numbers piece_of(const Numbers& rows, std::int64_t pieces, std::int64_t number) {
  const auto length = static_cast<std::int64_t>(rows.size()) / pieces;
  Numbers out;
  for (std::int64_t i = 0; i < length; ++i) {
    out.push_back(rows[static_cast<std::size_t>(number * length + i)]);
  }
  return out;
}

Numbers rows_of_fields(std::int64_t size, const Layout& layout, std::int64_t part,
                       std::int64_t device) {
  const std::int64_t field_rows = size / layout.fields;
  Numbers out;
  for (std::int64_t field = 0; field < layout.fields; ++field) {
    const Numbers share = piece_of(range(field * field_rows, field_rows), parts(layout)[0], part);
    const Numbers own = piece_of(share, optimizer_parts(layout), optimizer_part(layout, device));
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
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

Numbers parts(const Layout& layout) {
  Numbers out;
  for (const auto& axes : layout.tensor_map) {
    std::int64_t count = 1;
    for (const int axis : axes) count *= layout.device_matrix[axis_index(layout, axis)];
    out.push_back(count);
  }
  return out;
}

std::int64_t replicas(const Layout& layout) {
  std::int64_t count = 0;
  for (std::int64_t other = 0; other < device_count(layout); ++other) {
    if (position(layout, other) == position(layout, 0)) ++count;
  }
  return count;
}

Numbers units(const Layout& layout) {
  Numbers out(layout.tensor_map.size(), 1);
  out[0] = optimizer_parts(layout) * layout.fields;
  return out;
}

Held held_by(const Numbers& shape, const Layout& layout, std::int64_t device) {
  const Numbers own = position(layout, device);
  Held held;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Numbers all = lengths(layout, i, shape[i]);
    std::int64_t first = 0;
    for (std::int64_t part = 0; part < own[i]; ++part) first += all[static_cast<std::size_t>(part)];
    held.push_back(range(first, all[static_cast<std::size_t>(own[i])]));
  }
  held[0] = layout.fields > 1
                ? rows_of_fields(shape[0], layout, own[0], device)
                : piece_of(held[0], optimizer_parts(layout), optimizer_part(layout, device));
  return held;
}

Numbers shape_of(const Held& held) {
  Numbers out;
  for (const Numbers& indices : held) out.push_back(static_cast<std::int64_t>(indices.size()));
  return out;
}

std::vector<std::size_t> elements_of(const Numbers& shape, const Held& held) {
  std::vector<std::size_t> out;
  const Numbers slice_shape = shape_of(held);
  const std::int64_t count = product(slice_shape);
  for (std::int64_t number = 0; number < count; ++number) {
    const Numbers inside = coordinates(slice_shape, number);
    std::int64_t flat = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      flat = flat * shape[i] + held[i][static_cast<std::size_t>(inside[i])];
    }
    out.push_back(static_cast<std::size_t>(flat));
  }
  return out;
}

std::string slice(const std::string& full, const Numbers& shape, std::size_t element_size,
                  const Held& held) {
  std::string out;
  for (const std::size_t element : elements_of(shape, held)) {
    out.append(full, element * element_size, element_size);
  }
  return out;
}

}  // namespace naive
