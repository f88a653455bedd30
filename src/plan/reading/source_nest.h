// SPDX-License-Identifier: Apache-2.0
/// The sources of a tensor's elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/holders.h"
#include "layout/nest.h"

namespace reshardfs {

/// Elements of one source cell. Nest::from counts in the cell's content, Nest::to in the
/// destination slice.
struct SourceNest {
  Holding holding{};     ///< empty: no file has the cell
  std::size_t cell = 0;  ///< the number of the holding's cell in the grid
  Nest nest{};
  /// The bytes of one element, if a model map states the value and no file holds it; valid while
  /// the nest is visited. `holding` is empty then.
  const std::vector<std::byte>* literal = nullptr;
};

using VisitSource = FunctionRef<void(const SourceNest&)>;

/// `count` pieces of `length` bytes, equally far apart in a cell's content and in the destination.
struct StridedRun {
  Holding holding;
  std::size_t cell = 0;                  ///< the number of the holding's cell in the grid
  std::uint64_t source_offset = 0;       ///< bytes, in the cell's content
  std::uint64_t destination_offset = 0;  ///< bytes, in the destination slice
  std::uint64_t length = 0;              ///< bytes of one piece, at least 1
  std::uint64_t count = 1;
  std::uint64_t source_stride = 0;  ///< bytes between the starts of pieces; >= length
  std::uint64_t destination_stride = 0;
  /// As in SourceNest: the bytes that repeat within a piece.
  const std::vector<std::byte>* literal = nullptr;
};

}  // namespace reshardfs
