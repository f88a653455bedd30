// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/dequantized_content.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "checkpoint/quantized/turned_band.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kElementsAtOnce = 128ULL << 10U;
/// Of a transposed weight: rows and columns that are loaded at once; fewer rows of a far source,
/// from which what lies between the columns is read, too.
constexpr std::uint64_t kStoredRowsAtOnce = 1024;
constexpr std::uint64_t kFarRowsAtOnce = 512;
constexpr std::uint64_t kStoredColumnsAtOnce = 256;
/// Of codes: more is needed for far sources alone.
constexpr std::size_t kMostKept = 1U << 20U;

/// Of a thread, from read to read.
TurnedMemory& memory() {
  thread_local TurnedMemory own;
  if (own.band.codes.capacity() > kMostKept) own.band.codes = {};
  return own;
}

/// Elements of a matrix of which rows are shown.
void show_rows(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen,
               std::byte* out) {
  WeightBand band(weight, wanted, foreseen, memory().band);
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
    const std::uint64_t at_once =
        weight_.codes.source->is_far() ? kFarRowsAtOnce : kStoredRowsAtOnce;
    out_ = out;
    WeightRectangle part{.matrix = matrix_};
    for (part.column_begin = first_column; part.column_begin < end_column;
         part.column_begin = part.column_end) {
      part.column_end = std::min(
          end_column, (part.column_begin / kStoredColumnsAtOnce + 1) * kStoredColumnsAtOnce);
      for (part.row_begin = first_row; part.row_begin < end_row; part.row_begin = part.row_end) {
        part.row_end = std::min(end_row, part.row_begin + at_once);
        show_part(part, foreseen);
      }
    }
  }

 private:
  void show_part(const WeightRectangle& part, bool foreseen) {
    TurnedBand band(weight_, part, foreseen, memory());
    for (std::uint64_t column = part.column_begin; column < part.column_end; ++column) {
      // The first and the last column may be wanted in part.
      const std::uint64_t column_first = column * rows_;
      const std::uint64_t first = std::max(first_, column_first + part.row_begin);
      const std::uint64_t end = std::min(end_, column_first + part.row_end);
      if (first >= end) continue;
      band.decode_column(column, first - column_first, end - first, out_ + 2 * (first - first_));
    }
  }

  const QuantizedWeight& weight_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  std::uint64_t matrix_;
  std::uint64_t first_;
  std::uint64_t end_;
  std::byte* out_ = nullptr;
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
