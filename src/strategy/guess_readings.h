// SPDX-License-Identifier: Apache-2.0
/// The layouts that slices can come from: pure arithmetic over shapes, and over which ranks hold
/// the same.
///
/// The space of layouts is that of a device matrix in rank order: every dimension of the tensor is
/// cut by axes in the order of the matrix, first axis major, and the optimizer may cut the slice
/// once more along dimension 0. Parts are equally long, but for those of one dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/shape.h"

namespace reshardfs {

/// What the devices of a stage hold of one parameter.
struct DeviceSlices {
  /// By device, or one for all.
  std::vector<Shape> shapes{};
  /// By device: a number for each content that was found. Equal numbers prove nothing.
  std::vector<std::uint32_t> contents{};
  /// By device: all elements that were looked at have one value.
  std::vector<bool> blank{};

  const Shape& shape(std::size_t device) const { return shapes[shapes.size() == 1 ? 0 : device]; }
  std::size_t dimensions() const { return shapes.front().size(); }
  /// Whether nothing was found but one value.
  bool is_constant() const;
  bool has_one_shape() const { return shapes.size() == 1; }
};

/// One way to see the slices as parts of a full tensor.
struct Reading {
  Layout layout{};  ///< with the fewest axes that state it
  Shape full_shape{};
  std::vector<std::int64_t> splits{};  ///< parts of each dimension, those of the optimizer included
  /// By device: the part that it holds, row-major over the splits. Readings of one full shape with
  /// the same parts are the same.
  std::vector<std::uint32_t> parts{};
  /// Only an optimizer cut gives these parts to these devices.
  bool optimizer = false;

  bool is_whole() const;
};

struct Readings {
  /// Those that no difference of contents excludes.
  std::vector<Reading> left{};
  /// How many the shapes alone allow.
  std::size_t fitting = 0;
  /// There are more than are worth a look: `left` is empty.
  bool too_many = false;
};

/// All readings of slices as parts of a tensor of this shape.
/// @param devices of a stage, as many as `slices.contents` has entries.
Readings readings_of(std::int64_t devices, const DeviceSlices& slices, const Shape& full_shape);

/// A reading of a layout; `optimizer` is not set.
Reading reading_by(const Layout& layout, const Shape& full_shape);

/// Whether devices that hold different parts were found with the same contents, of more than one
/// value: no proof against the reading, but hardly ever so.
bool repeats(const Reading& reading, const DeviceSlices& slices);

/// Whether devices that hold the same part were found with the same contents.
bool explains(const Reading& reading, const std::vector<std::uint32_t>& contents);

}  // namespace reshardfs
