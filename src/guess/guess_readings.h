// SPDX-License-Identifier: Apache-2.0
/// The layouts that slices can come from: pure arithmetic over shapes, and over which ranks hold
/// the same.
///
/// The space of layouts is that of strategies: any device matrix in rank order; each dimension of
/// the tensor cut by any of its axes, in any order; and an optimizer cut along dimension 0. Parts
/// of a dimension are equally long, or as long as the slices are. Fields are left out: they divide
/// embeddings of several fields alone. Layouts that give every device the same box of the same full
/// tensor are one reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
  /// Whether any two devices were found with different contents.
  bool differ() const;
};

/// One way to see the slices as parts of a full tensor.
struct Reading {
  Layout layout{};  ///< with the fewest axes that state it
  Shape full_shape{};
  std::vector<std::int64_t> splits{};  ///< parts of each dimension, those of the optimizer included
  /// By device: the part that it holds, row-major over the splits.
  std::vector<std::uint32_t> parts{};

  bool is_whole() const;
  /// Whether both give every device the same box. Only for readings of the same slices, whose
  /// lengths tell where parts of uneven cuts begin.
  bool same_boxes(const Reading& other) const;
};

struct Readings {
  /// Those that no difference of contents excludes, each once.
  std::vector<Reading> left{};
  /// The shapes alone allow one.
  bool fits = false;
  /// There are more than are worth a look: `left` has only the first of them.
  bool too_many = false;

  /// Adds the readings of another full shape.
  void add(const Readings& more);
};

/// More readings of one parameter are not looked for.
inline constexpr std::size_t kMostReadings = 1000;

/// All readings of slices as parts of a tensor of this shape.
/// @param devices of a stage, as many as `slices.contents` has entries.
Readings readings_of(std::int64_t devices, const DeviceSlices& slices, const Shape& full_shape);

/// All readings of slices as parts of a tensor of any shape.
Readings readings_of_any_shape(std::int64_t devices, const DeviceSlices& slices);

/// The reading of a layout that says nothing of uneven lengths: those are the slices'.
/// @return nothing if the slices cannot be parts of the tensor, or copies differ.
std::optional<Reading> reading_as(const Layout& layout, const DeviceSlices& slices,
                                  const Shape& full_shape);

/// Whether the layout gives the devices slices of these shapes, whatever they contain.
bool fits_shapes(const Layout& layout, const DeviceSlices& slices, const Shape& full_shape);

/// The reading of a layout with even cuts, of slices that nobody looks at.
Reading reading_by(const Layout& layout, const Shape& full_shape);

/// Whether devices that hold different parts were found with the same contents, of more than one
/// value: no proof against the reading, but hardly ever so.
bool repeats(const Reading& reading, const DeviceSlices& slices);

/// Whether devices that hold the same part were found with the same contents.
bool explains(const Reading& reading, const std::vector<std::uint32_t>& contents);

}  // namespace reshardfs
