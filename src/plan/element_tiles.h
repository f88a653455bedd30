// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/tensor_view.h"

namespace reshardfs {

/// Runs of single elements, as those of a transposed tensor are, put together: where the next run
/// has the neighbours of the elements of one before it, both are read as pieces of several
/// elements, which are then transposed. So a source is read in pieces as long as there are such
/// runs, and not element by element.
class ElementTiles {
 public:
  /// @param read reads a run to the start of its span.
  /// @param element bytes.
  ElementTiles(std::uint64_t element,
               std::function<void(const StridedRun& run, std::span<std::byte> out)> read)
      : element_(element), read_(std::move(read)) {}

  /// Takes a run if it is one of single elements. It may be read later.
  /// @param out where its first element goes. Must stay until finish().
  /// @return false if it is another run, and is not taken.
  bool take(const StridedRun& run, std::byte* out);
  /// Reads all that was taken.
  void finish();

 private:
  /// Runs side by side: columns of the source, rows of the destination.
  struct Tile {
    StridedRun first;
    std::byte* out = nullptr;
    std::uint64_t columns = 1;
    std::ptrdiff_t row_stride = 0;  ///< bytes in the destination; known from the second column on

    bool grow(const StridedRun& run, std::byte* to, std::uint64_t element);
  };

  void read_tile(const Tile& tile);

  std::uint64_t element_;
  std::function<void(const StridedRun&, std::span<std::byte>)> read_;
  std::vector<Tile> tiles_;
  std::size_t last_ = 0;  ///< the tile that has grown last
};

}  // namespace reshardfs
