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
constexpr std::uint64_t kFastColumns = 16;

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

struct Tile {
  std::uint64_t rows;
  std::uint64_t columns;
  std::uint64_t stride;  ///< from row to row, in elements
};

/// Rows of 16-bit elements as columns.
/// @param stride of columns that are written, in elements.
void transpose(const std::uint16_t* in, const Tile& tile, std::uint64_t stride,
               std::byte* out) noexcept {
  const std::uint64_t whole_rows = tile.rows / kSquare * kSquare;
  const std::uint64_t whole_columns = tile.columns / kSquare * kSquare;
  for (std::uint64_t column = 0; column < whole_columns; column += kSquare) {
    for (std::uint64_t row = 0; row < whole_rows; row += kSquare) {
      transpose_square(in + row * tile.stride + column, tile.stride,
                       out + 2 * (column * stride + row), stride);
    }
  }
  for (std::uint64_t column = 0; column < tile.columns; ++column) {
    for (std::uint64_t row = column < whole_columns ? whole_rows : 0; row < tile.rows; ++row) {
      std::memcpy(out + 2 * (column * stride + row), in + row * tile.stride + column, 2);
    }
  }
}

/// A rectangle whose columns begin and end where decoders are fast.
WeightRectangle widened(WeightRectangle wanted, std::uint64_t columns) {
  wanted.column_begin -= wanted.column_begin % kFastColumns;
  const std::uint64_t behind = wanted.column_end + kFastColumns - 1;
  wanted.column_end = std::min(columns, behind - behind % kFastColumns);
  return wanted;
}

/// Elements of a matrix of which rows are shown.
void show_rows(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen,
               std::byte* out) {
  WeightBand band(weight, wanted, foreseen);
  for (std::uint64_t row = wanted.row_begin; row < wanted.row_end; ++row) {
    band.decode_row(row, out);
    out += 2 * wanted.columns();
  }
}

/// Elements of a matrix of which columns are shown: [first, first + count) in that order.
class Columns {
 public:
  Columns(const QuantizedWeight& weight, std::uint64_t rows, std::uint64_t columns,
          std::uint64_t matrix, std::uint64_t first, std::uint64_t count)
      : weight_(weight),
        rows_(rows),
        columns_(columns),
        matrix_(matrix),
        first_(first),
        end_(first + count) {}

  void show(bool foreseen, std::byte* out) {
    const std::uint64_t first_column = first_ / rows_;
    const std::uint64_t end_column = (end_ - 1) / rows_ + 1;
    const bool is_one = first_column + 1 == end_column;
    const std::uint64_t first_row = is_one ? first_ % rows_ : 0;
    const std::uint64_t end_row = is_one ? (end_ - 1) % rows_ + 1 : rows_;
    out_ = out;
    WeightRectangle part{.matrix = matrix_};
    for (part.column_begin = first_column; part.column_begin < end_column;
         part.column_begin = part.column_end) {
      part.column_end = std::min(
          end_column, (part.column_begin / kStoredColumnsAtOnce + 1) * kStoredColumnsAtOnce);
      for (part.row_begin = first_row; part.row_begin < end_row; part.row_begin = part.row_end) {
        part.row_end = std::min(end_row, part.row_begin + kStoredRowsAtOnce);
        show_part(part, foreseen);
      }
    }
  }

 private:
  void show_part(const WeightRectangle& part, bool foreseen) {
    const WeightRectangle wide = widened(part, columns_);
    WeightBand band(weight_, wide, foreseen);
    const std::uint64_t width = wide.columns();
    tile_.resize(static_cast<std::size_t>(kRowsOfTile * width));
    for (std::uint64_t begin = part.row_begin; begin < part.row_end; begin += kRowsOfTile) {
      const std::uint64_t rows = std::min(kRowsOfTile, part.row_end - begin);
      for (std::uint64_t row = 0; row < rows; ++row) {
        band.decode_row(begin + row, reinterpret_cast<std::byte*>(tile_.data() + row * width));
      }
      // The first and the last column may be wanted in part.
      std::uint64_t whole = part.column_begin;
      std::uint64_t whole_end = part.column_end;
      const auto in_tile = [&](std::uint64_t column) {
        return tile_.data() + (column - wide.column_begin);
      };
      const auto show_some = [&](std::uint64_t column) {
        const std::uint64_t at = column * rows_ + begin;
        for (std::uint64_t row = 0; row < rows; ++row) {
          if (at + row < first_ || at + row >= end_) continue;
          std::memcpy(out_ + 2 * (at + row - first_), in_tile(column) + row * width, 2);
        }
      };
      if (whole * rows_ < first_) show_some(whole++);
      if (whole < whole_end && whole_end * rows_ > end_) show_some(--whole_end);
      if (whole == whole_end) continue;
      transpose(in_tile(whole), {rows, whole_end - whole, width}, rows_,
                out_ + 2 * (whole * rows_ + begin - first_));
    }
  }

  const QuantizedWeight& weight_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  std::uint64_t matrix_;
  std::uint64_t first_;
  std::uint64_t end_;
  std::byte* out_ = nullptr;
  std::vector<std::uint16_t> tile_;
};

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
  const std::uint64_t of_matrix = rows_ * columns_;
  while (count > 0) {
    const std::uint64_t matrix = first / of_matrix;
    const std::uint64_t begin = first % of_matrix;
    std::uint64_t done = std::min(count, of_matrix - begin);
    if (weight_.is_transposed) {
      Columns(weight_, rows_, columns_, matrix, begin, done).show(foreseen, out);
    } else {
      done = std::min(done, kElementsAtOnce);
      const std::uint64_t row = begin / columns_;
      const std::uint64_t column = begin % columns_;
      // Whole rows, or some of one.
      const std::uint64_t rows = column == 0 ? std::max<std::uint64_t>(done / columns_, 1) : 1;
      const std::uint64_t end = rows == 1 ? std::min(columns_, column + done) : columns_;
      show_rows(weight_, {matrix, row, row + rows, column, end}, foreseen, out);
      done = rows * (end - column);
    }
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
