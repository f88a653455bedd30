// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/dequantized_content.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "checkpoint/quantized/weight_band.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kElementsAtOnce = 128ULL << 10U;
/// Of a transposed weight: rows and columns that are loaded at once, and rows of them that are
/// decoded before their columns are shown.
constexpr std::uint64_t kStoredRowsAtOnce = 512;
constexpr std::uint64_t kStoredColumnsAtOnce = kElementsAtOnce / kStoredRowsAtOnce;
constexpr std::uint64_t kRowsOfTile = 128;

/// Eight elements of eight rows.
constexpr std::size_t kSquare = 8;

/// Each round puts elements of two rows by turns: after three, rows are columns.
void transpose_square(const std::uint16_t* in, std::uint64_t in_stride, std::byte* out,
                      std::uint64_t out_stride) noexcept {
  using Row = std::uint16_t __attribute__((vector_size(2 * kSquare)));
  using Rows = std::array<Row, kSquare>;
  // Without loops, or the rows are kept in memory.
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    Rows rows;
    (std::memcpy(&rows[i], in + i * in_stride, sizeof(Row)), ...);
    const auto by_turns = [](const Rows& of) {
      return Rows{(i % 2 == 0 ? __builtin_shufflevector(of[i / 2], of[i / 2 + kSquare / 2], 0, 8, 1,
                                                        9, 2, 10, 3, 11)
                              : __builtin_shufflevector(of[i / 2], of[i / 2 + kSquare / 2], 4, 12,
                                                        5, 13, 6, 14, 7, 15))...};
    };
    rows = by_turns(by_turns(by_turns(rows)));
    (std::memcpy(out + 2 * i * out_stride, &rows[i], sizeof(Row)), ...);
  }
  (std::make_index_sequence<kSquare>());
}

/// Rows of 16-bit elements as columns.
/// @param stride of columns that are written, in elements.
void transpose(const std::uint16_t* in, std::uint64_t rows, std::uint64_t columns,
               std::uint64_t stride, std::byte* out) noexcept {
  const std::uint64_t whole_rows = rows / kSquare * kSquare;
  const std::uint64_t whole_columns = columns / kSquare * kSquare;
  for (std::uint64_t column = 0; column < whole_columns; column += kSquare) {
    for (std::uint64_t row = 0; row < whole_rows; row += kSquare) {
      transpose_square(in + row * columns + column, columns, out + 2 * (column * stride + row),
                       stride);
    }
  }
  for (std::uint64_t column = 0; column < columns; ++column) {
    for (std::uint64_t row = column < whole_columns ? whole_rows : 0; row < rows; ++row) {
      std::memcpy(out + 2 * (column * stride + row), in + row * columns + column, 2);
    }
  }
}

/// @param stride from column to column that is shown, in elements.
void show_columns(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen,
                  std::uint64_t stride, std::byte* out) {
  WeightBand band(weight, wanted, foreseen);
  const std::uint64_t columns = wanted.columns();
  std::vector<std::uint16_t> tile(static_cast<std::size_t>(kRowsOfTile * columns));
  for (std::uint64_t begin = wanted.row_begin; begin < wanted.row_end; begin += kRowsOfTile) {
    const std::uint64_t rows = std::min(kRowsOfTile, wanted.row_end - begin);
    for (std::uint64_t row = 0; row < rows; ++row) {
      band.decode_row(begin + row, reinterpret_cast<std::byte*>(tile.data() + row * columns));
    }
    transpose(tile.data(), rows, columns, stride, out + 2 * (begin - wanted.row_begin));
  }
}

/// A rectangle in the order in which it is shown.
void show(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen,
          std::byte* out) {
  if (!weight.is_transposed) {
    WeightBand band(weight, wanted, foreseen);
    for (std::uint64_t row = wanted.row_begin; row < wanted.row_end; ++row) {
      band.decode_row(row, out);
      out += 2 * wanted.columns();
    }
    return;
  }
  const std::uint64_t stride = wanted.row_end - wanted.row_begin;
  WeightRectangle part = wanted;
  for (; part.column_begin < wanted.column_end; part.column_begin = part.column_end) {
    part.column_end = std::min(wanted.column_end, part.column_begin + kStoredColumnsAtOnce);
    for (part.row_begin = wanted.row_begin; part.row_begin < wanted.row_end;
         part.row_begin = part.row_end) {
      part.row_end = std::min(wanted.row_end, part.row_begin + kStoredRowsAtOnce);
      const std::uint64_t at =
          (part.column_begin - wanted.column_begin) * stride + part.row_begin - wanted.row_begin;
      show_columns(weight, part, foreseen, stride, out + 2 * at);
    }
  }
}

}  // namespace

Shape QuantizedWeight::shown_shape() const {
  Shape shown = shape;
  if (is_transposed) std::swap(shown[shown.size() - 2], shown.back());
  return shown;
}

bool QuantizedWeight::has_one_scale() const {
  return element_count(scales.shape) == 1 && zero_packing == ZeroPacking::kNone;
}

DequantizedContent::DequantizedContent(QuantizedWeight weight, const ByteSourcePtr& file)
    : ComputedElements(2),
      weight_(std::move(weight)),
      rows_(static_cast<std::uint64_t>(weight_.shape[weight_.shape.size() - 2])),
      columns_(static_cast<std::uint64_t>(weight_.shape.back())) {
  for (std::size_t i = 0; i + 2 < weight_.shape.size(); ++i) {
    matrices_ *= static_cast<std::uint64_t>(weight_.shape[i]);
  }
  std::vector<const StoredTensor*> parts{&weight_.codes, &weight_.scales};
  if (weight_.zero_packing != ZeroPacking::kNone) parts.push_back(&weight_.zeros);
  if (weight_.factor) parts.push_back(&*weight_.factor);
  for (const StoredTensor* const part : parts) {
    const bool is_new = part->source != file &&
                        std::find(others_.begin(), others_.end(), part->source) == others_.end();
    if (is_new) others_.push_back(part->source);
  }
}

std::uint64_t DequantizedContent::size() const {
  return width() * matrices_ * rows_ * columns_;
}

void DequantizedContent::make(std::uint64_t first, std::uint64_t count, bool foreseen,
                              std::byte* out) const {
  const std::uint64_t lines = weight_.is_transposed ? columns_ : rows_;
  const std::uint64_t length = weight_.is_transposed ? rows_ : columns_;
  // Lines of a transposed weight are made by parts.
  const std::uint64_t at_once = weight_.is_transposed ? count : std::min(count, kElementsAtOnce);
  while (count > 0) {
    const std::uint64_t line = first / length;
    const std::uint64_t begin = first % length;
    std::uint64_t some = 1;  // lines
    const std::uint64_t end = std::min({length, begin + count, begin + at_once});
    if (begin == 0 && end == length) {
      some = std::clamp<std::uint64_t>(std::min(count, at_once) / length, 1, lines - line % lines);
    }
    WeightRectangle wanted{line / lines, line % lines, line % lines + some, begin, end};
    if (weight_.is_transposed) {
      std::swap(wanted.row_begin, wanted.column_begin);
      std::swap(wanted.row_end, wanted.column_end);
    }
    show(weight_, wanted, foreseen, out);
    const std::uint64_t done = some * (end - begin);
    first += done;
    count -= done;
    out += width() * done;
  }
}

void DequantizedContent::check_unchanged() const {
  for (const ByteSourcePtr& other : others_) other->check_unchanged();
}

void DequantizedContent::foresee(const ByteRange& range, Foresight when) const noexcept {
  if (range.empty()) return;
  try {
    const std::uint64_t of_matrix = rows_ * columns_;
    const std::uint64_t first = range.offset() / width();
    const std::uint64_t last = (range.end() - 1) / width();
    for (std::uint64_t matrix = first / of_matrix; matrix <= last / of_matrix; ++matrix) {
      WeightRectangle wanted{matrix, 0, rows_, 0, columns_};
      if (!weight_.is_transposed) {
        if (matrix == first / of_matrix) wanted.row_begin = first % of_matrix / columns_;
        if (matrix == last / of_matrix) wanted.row_end = last % of_matrix / columns_ + 1;
        if (wanted.row_begin + 1 == wanted.row_end) {
          wanted.column_begin = first % columns_;
          wanted.column_end = last % columns_ + 1;
        }
      }
      const std::array codes{codes_of(weight_, wanted).in_file(weight_.codes)};
      const std::array scales{scales_of(weight_, wanted).in_file(weight_.scales)};
      weight_.codes.source->foresee(codes, when);
      weight_.scales.source->foresee(scales, when);
    }
  } catch (const std::exception&) {
    // A read of the range reports the error.
  }
}

}  // namespace reshardfs
