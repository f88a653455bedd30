// SPDX-License-Identifier: Apache-2.0
#include "plan/element_tiles.h"

#include <algorithm>
#include <cstring>

namespace reshardfs {
namespace {

/// As many kinds of runs may take turns: sources that are fused and cells that cut them.
constexpr std::size_t kMostTiles = 64;
/// Stays in a processor's own cache until it is transposed.
constexpr std::size_t kScratchBytes = 256 << 10;
/// Elements in a row and in a column that are transposed at once: their cache lines stay near.
constexpr std::uint64_t kBlock = 16;

std::span<std::byte> scratch() {
  thread_local std::vector<std::byte> buffer(kScratchBytes);
  return buffer;
}

struct Matrix {
  const std::byte* from = nullptr;  ///< rows of `columns` elements, one after the other
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::byte* to = nullptr;
  std::ptrdiff_t stride = 0;  ///< bytes from one column's elements to the next one's
};

template <std::size_t kElement>
void transpose(const Matrix& matrix) {
  for (std::uint64_t row = 0; row < matrix.rows; row += kBlock) {
    const std::uint64_t rows = std::min(kBlock, matrix.rows - row);
    for (std::uint64_t column = 0; column < matrix.columns; ++column) {
      std::byte* to =
          matrix.to + static_cast<std::ptrdiff_t>(column) * matrix.stride + row * kElement;
      const std::byte* from = matrix.from + (row * matrix.columns + column) * kElement;
      for (std::uint64_t i = 0; i < rows; ++i) {
        std::memcpy(to + i * kElement, from + i * matrix.columns * kElement, kElement);
      }
    }
  }
}

void transpose(const Matrix& matrix, std::uint64_t element) {
  switch (element) {
    case 1:
      return transpose<1>(matrix);
    case 2:
      return transpose<2>(matrix);
    case 4:
      return transpose<4>(matrix);
    case 8:
      return transpose<8>(matrix);
    default:
      return transpose<16>(matrix);
  }
}

}  // namespace

bool ElementTiles::Tile::grow(const StridedRun& run, std::byte* to, std::uint64_t element) {
  const bool fits = run.cell == first.cell && run.count == first.count &&
                    run.source_stride == first.source_stride &&
                    run.source_offset == first.source_offset + columns * element &&
                    (columns + 1) * element <= first.source_stride &&
                    (columns + 1) * element <= kScratchBytes;
  if (!fits) return false;
  if (columns == 1) row_stride = to - out;
  if (to != out + static_cast<std::ptrdiff_t>(columns) * row_stride) return false;
  ++columns;
  return true;
}

bool ElementTiles::take(const StridedRun& run, std::byte* out) {
  const bool is_of_elements = run.literal == nullptr && run.holding && run.length == element_ &&
                              run.count > 1 && run.source_stride > element_ &&
                              run.destination_stride == element_;
  if (!is_of_elements) return false;
  // The kinds of runs take turns: the tile behind the last one is the one to try first.
  for (std::size_t i = 1; i <= tiles_.size(); ++i) {
    const std::size_t at = (last_ + i) % tiles_.size();
    if (!tiles_[at].grow(run, out, element_)) continue;
    last_ = at;
    return true;
  }
  if (tiles_.size() == kMostTiles) finish();
  last_ = tiles_.size();
  tiles_.push_back({run, out});
  return true;
}

void ElementTiles::finish() {
  for (const Tile& tile : tiles_) read_tile(tile);
  tiles_.clear();
  last_ = 0;
}

void ElementTiles::read_tile(const Tile& tile) {
  const std::uint64_t row_bytes = tile.columns * element_;
  const std::uint64_t at_once = kScratchBytes / row_bytes;
  for (std::uint64_t row = 0; row < tile.first.count; row += at_once) {
    StridedRun rows = tile.first;
    rows.count = std::min(at_once, rows.count - row);
    rows.source_offset += row * rows.source_stride;
    rows.length = row_bytes;
    rows.destination_stride = row_bytes;
    if (rows.count == 1) rows.source_stride = row_bytes;
    const std::span<std::byte> block =
        scratch().first(static_cast<std::size_t>(rows.count * row_bytes));
    read_(rows, block);
    transpose({block.data(), rows.count, tile.columns, tile.out + row * element_, tile.row_stride},
              element_);
  }
}

}  // namespace reshardfs
