// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/dequantized_content.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <span>
#include <tuple>
#include <utility>

#include "checkpoint/quantized/codes.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kElementsAtOnce = 128ULL << 10U;
/// Of a transposed weight: rows that are stored, from which as many columns are made.
constexpr std::uint64_t kStoredRowsAtOnce = 512;
constexpr std::uint64_t kWordBits = 32;
constexpr std::uint64_t kWordBytes = 4;
/// So many codes fill whole bytes.
constexpr std::uint64_t kCodesAtOnce = 8;
/// Where rows are so many times as long as what is wanted of each.
constexpr std::uint64_t kWorthGathering = 4;
/// Where fewer columns share a scale, each code is given its own.
constexpr std::int64_t kLeastRun = 8;

std::uint64_t up(std::uint64_t number, std::uint64_t by) noexcept {
  return number / by + (number % by == 0 ? 0 : 1);
}

std::uint64_t last_of(const Shape& shape, std::size_t from_end) {
  return static_cast<std::uint64_t>(shape[shape.size() - from_end]);
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::uint64_t offset) noexcept {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

}  // namespace

Shape QuantizedWeight::shown_shape() const {
  Shape shown = shape;
  if (is_transposed) std::swap(shown[shown.size() - 2], shown.back());
  return shown;
}

/// Half-open, of a stored tensor.
struct DequantizedContent::Bytes {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::vector<std::byte> of(const StoredTensor& tensor, bool foreseen) const {
    std::vector<std::byte> out(static_cast<std::size_t>(end - begin));
    read_part(*tensor.source, {tensor.place.offset() + begin, out, foreseen});
    return out;
  }
};

struct DequantizedContent::Band {
  std::uint64_t matrix = 0;
  std::uint64_t row_begin = 0;
  std::uint64_t row_end = 0;
  std::uint64_t column_begin = 0;
  std::uint64_t column_end = 0;
  bool foreseen = false;

  std::vector<std::byte> codes{};
  std::uint64_t row_bytes = 0;     ///< from row to row of the codes
  std::uint64_t scale_row = 0;     ///< of the first one
  std::uint64_t scale_column = 0;  ///< of the first one
  std::vector<float> scales{};
  std::vector<int> zeros{};  ///< one for each scale; empty: all are 0

  // For a row.
  std::vector<std::uint8_t> unpacked{};
  std::vector<int> offsets{};
  std::vector<float> each_scale{};
};

DequantizedContent::DequantizedContent(QuantizedWeight weight, const ByteSourcePtr& file)
    : weight_(std::move(weight)),
      rows_(last_of(weight_.shape, 2)),
      columns_(last_of(weight_.shape, 1)),
      has_one_scale_(element_count(weight_.scales.shape) == 1 &&
                     weight_.zero_packing == ZeroPacking::kNone) {
  for (std::size_t i = 0; i + 2 < weight_.shape.size(); ++i) {
    matrices_ *= static_cast<std::uint64_t>(weight_.shape[i]);
  }
  if (!has_one_scale_) {
    scale_rows_ = up(rows_, static_cast<std::uint64_t>(weight_.block.rows));
    scale_columns_ = up(columns_, static_cast<std::uint64_t>(weight_.block.columns));
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
  return 2 * matrices_ * rows_ * columns_;
}

DequantizedContent::Bytes DequantizedContent::bytes_of(const Band& band) const {
  std::uint64_t rows = rows_;
  std::uint64_t first = band.row_begin;
  std::uint64_t behind = band.row_end;
  Bytes in_row;
  switch (weight_.packing) {
    case CodePacking::kStream:
      in_row = {band.column_begin / kCodesAtOnce * weight_.bits,
                up(band.column_end * weight_.bits, 8)};
      break;
    case CodePacking::kInterleaved:
      in_row = {band.column_begin / kCodesAtOnce * kWordBytes,
                up(band.column_end, kCodesAtOnce) * kWordBytes};
      break;
    case CodePacking::kWordsOfRows: {
      const std::uint64_t of_word = kWordBits / weight_.bits;
      rows = up(rows, of_word);
      first /= of_word;
      behind = up(behind, of_word);
      in_row = {band.column_begin * kWordBytes, band.column_end * kWordBytes};
      break;
    }
  }
  const std::uint64_t begin = band.matrix * rows;
  return {(begin + first) * weight_.row_bytes + in_row.begin,
          (begin + behind - 1) * weight_.row_bytes + in_row.end};
}

DequantizedContent::Bytes DequantizedContent::scale_bytes_of(const Band& band) const {
  const auto bytes = static_cast<std::uint64_t>(element_size(weight_.scales.dtype));
  if (has_one_scale_) return {0, bytes};
  const auto block_rows = static_cast<std::uint64_t>(weight_.block.rows);
  const auto block_columns = static_cast<std::uint64_t>(weight_.block.columns);
  const std::uint64_t begin = band.matrix * scale_rows_;
  const std::uint64_t first = begin + band.row_begin / block_rows;
  const std::uint64_t last_row = begin + (band.row_end - 1) / block_rows;
  return {(first * scale_columns_ + band.column_begin / block_columns) * bytes,
          (last_row * scale_columns_ + (band.column_end - 1) / block_columns + 1) * bytes};
}

/// Of few columns of a transposed weight, no more than these are read, where the file can do that.
void DequantizedContent::load_codes(Band& band) const {
  const Bytes all = bytes_of(band);
  band.row_bytes = weight_.row_bytes;
  const std::uint64_t rows = up(all.end - all.begin, weight_.row_bytes);
  const std::uint64_t in_row = all.end - all.begin - (rows - 1) * weight_.row_bytes;
  if (rows > 1 && in_row * kWorthGathering < weight_.row_bytes && !weight_.codes.source->is_far()) {
    band.codes.resize(static_cast<std::size_t>(rows * in_row));
    const StridedRanges ranges(ByteRange(weight_.codes.place.offset() + all.begin, in_row), rows,
                               {.source = weight_.row_bytes, .memory = in_row});
    if (weight_.codes.source->gather(ranges, band.codes.data())) {
      band.row_bytes = in_row;
      return;
    }
  }
  band.codes = all.of(weight_.codes, band.foreseen);
}

void DequantizedContent::load(Band& band) const {
  load_codes(band);
  if (!has_one_scale_) {
    band.scale_row = band.row_begin / static_cast<std::uint64_t>(weight_.block.rows);
    band.scale_column = band.column_begin / static_cast<std::uint64_t>(weight_.block.columns);
  }
  const std::vector<std::byte> stored = scale_bytes_of(band).of(weight_.scales, band.foreseen);
  band.scales.resize(stored.size() / static_cast<std::size_t>(element_size(weight_.scales.dtype)));
  scales_as_floats(weight_.scales.dtype, stored, band.scales.data());
  if (weight_.factor) {
    const std::uint64_t at = element_count(weight_.factor->shape) == 1 ? 0 : band.matrix;
    const auto read =
        Bytes{at * sizeof(float), (at + 1) * sizeof(float)}.of(*weight_.factor, band.foreseen);
    float factor = 0;
    std::memcpy(&factor, read.data(), sizeof factor);
    for (float& scale : band.scales) scale = weight_.divides ? scale / factor : scale * factor;
  }
  load_zeros(band);
}

/// One for each scale that was loaded.
void DequantizedContent::load_zeros(Band& band) const {
  if (weight_.zero_packing == ZeroPacking::kNone) return;
  band.zeros.assign(band.scales.size(), 0);
  const std::uint64_t first = band.scale_row * scale_columns_ + band.scale_column;
  const auto set = [&](std::uint64_t row, std::uint64_t column, int stored) {
    const std::uint64_t at = row * scale_columns_ + column - first;
    if (at >= band.zeros.size()) return;
    const int zero = stored - weight_.zero_offset;
    band.zeros[at] = weight_.zero_modulus == 0 ? zero : zero % weight_.zero_modulus;
  };
  const std::uint64_t rows_end =
      (band.row_end - 1) / static_cast<std::uint64_t>(weight_.block.rows) + 1;
  const std::uint64_t row_bytes = last_of(weight_.zeros.shape, 1) * kWordBytes;
  const std::uint64_t mask = (1U << weight_.bits) - 1;
  switch (weight_.zero_packing) {
    case ZeroPacking::kNone:
      return;
    case ZeroPacking::kInt8: {
      const std::uint64_t begin = band.matrix * scale_rows_ * scale_columns_ + first;
      const auto stored = Bytes{begin, begin + band.zeros.size()}.of(weight_.zeros, band.foreseen);
      std::transform(stored.begin(), stored.end(), band.zeros.begin(), [](std::byte zero) {
        return static_cast<int>(std::to_integer<std::int8_t>(zero));
      });
      return;
    }
    case ZeroPacking::kColumns: {
      const std::uint64_t begin = band.matrix * up(rows_ * weight_.bits, kWordBits);
      const std::uint64_t word_row = band.row_begin * weight_.bits / kWordBits;
      const std::uint64_t word_end = up(band.row_end * weight_.bits, kWordBits);
      const auto stored = Bytes{(begin + word_row) * row_bytes, (begin + word_end) * row_bytes}.of(
          weight_.zeros, band.foreseen);
      for (std::uint64_t row = band.row_begin; row < band.row_end; ++row) {
        const std::uint64_t bit = row * weight_.bits;
        const std::uint64_t at = (bit / kWordBits - word_row) * row_bytes;
        for (std::uint64_t column = 0; column < scale_columns_; ++column) {
          std::uint64_t some = word_at(stored, at + column * kWordBytes);
          if (bit % kWordBits + weight_.bits > kWordBits) {
            some |= std::uint64_t{word_at(stored, at + row_bytes + column * kWordBytes)}
                    << kWordBits;
          }
          if (row == band.scale_row && column < band.scale_column) continue;
          set(row, column, static_cast<int>(some >> bit % kWordBits & mask));
        }
      }
      return;
    }
    case ZeroPacking::kRows: {
      std::vector<std::uint8_t> zeros(static_cast<std::size_t>(columns_));
      for (std::uint64_t row = band.scale_row; row < rows_end; ++row) {
        const std::uint64_t begin = (band.matrix * scale_rows_ + row) * row_bytes;
        const auto stored = Bytes{begin, begin + row_bytes}.of(weight_.zeros, band.foreseen);
        if (weight_.packing == CodePacking::kInterleaved) {
          unpack_interleaved(stored, 0, zeros);
        } else {
          unpack_stream(stored, weight_.bits, 0, zeros);
        }
        const std::uint64_t from = row == band.scale_row ? band.scale_column : 0;
        for (std::uint64_t column = from; column < columns_; ++column) {
          set(row, column, zeros[column]);
        }
      }
      return;
    }
  }
}

void DequantizedContent::decode_row(Band& band, std::uint64_t row, std::byte* out) const {
  const std::uint64_t count = band.column_end - band.column_begin;
  band.unpacked.resize(static_cast<std::size_t>(count));
  const std::span<const std::byte> codes(band.codes);
  if (weight_.packing == CodePacking::kWordsOfRows) {
    const std::uint64_t of_word = kWordBits / weight_.bits;
    const std::uint64_t at = (row / of_word - band.row_begin / of_word) * band.row_bytes;
    const std::uint64_t shift = row % of_word * weight_.bits;
    for (std::uint64_t i = 0; i < count; ++i) {
      band.unpacked[i] = static_cast<std::uint8_t>(word_at(codes, at + i * kWordBytes) >> shift &
                                                   ((1U << weight_.bits) - 1));
    }
  } else {
    const auto of_row =
        codes.subspan(static_cast<std::size_t>((row - band.row_begin) * band.row_bytes));
    const std::uint64_t first = band.column_begin % kCodesAtOnce;
    if (weight_.packing == CodePacking::kInterleaved) {
      unpack_interleaved(of_row, first, band.unpacked);
    } else {
      unpack_stream(of_row, weight_.bits, first, band.unpacked);
    }
  }
  const auto block_columns = static_cast<std::uint64_t>(weight_.block.columns);
  const std::uint64_t scale_row = row / static_cast<std::uint64_t>(weight_.block.rows);
  const auto place = [&](std::uint64_t column) {
    return has_one_scale_ ? 0
                          : (scale_row - band.scale_row) * scale_columns_ + column / block_columns -
                                band.scale_column;
  };
  const auto offset = [&](std::uint64_t at) {
    return weight_.offset + (band.zeros.empty() ? 0 : band.zeros[at]);
  };
  const std::span<const std::uint8_t> unpacked(band.unpacked);
  if (!has_one_scale_ && weight_.block.columns < kLeastRun) {
    band.offsets.resize(unpacked.size());
    band.each_scale.resize(unpacked.size());
    for (std::size_t i = 0; i < unpacked.size(); ++i) {
      const std::uint64_t at = place(band.column_begin + i);
      band.offsets[i] = offset(at);
      band.each_scale[i] = band.scales[at];
    }
    return decode_each(weight_.kind, unpacked, band.offsets.data(), band.each_scale.data(), out);
  }
  for (std::uint64_t column = band.column_begin; column < band.column_end;) {
    const std::uint64_t end =
        has_one_scale_ ? band.column_end
                       : std::min(band.column_end, (column / block_columns + 1) * block_columns);
    const std::uint64_t at = place(column);
    decode(weight_.kind, unpacked.subspan(column - band.column_begin, end - column), offset(at),
           band.scales[at], out);
    out += 2 * (end - column);
    column = end;
  }
}

/// Elements of whole lines, or of one line: the rows and columns that are shown.
void DequantizedContent::show(Band& band, std::byte* out) const {
  if (!weight_.is_transposed) {
    load(band);
    const std::uint64_t bytes = 2 * (band.column_end - band.column_begin);
    for (std::uint64_t row = band.row_begin; row < band.row_end; ++row, out += bytes) {
      decode_row(band, row, out);
    }
    return;
  }
  const std::uint64_t first = band.row_begin;
  const std::uint64_t end = band.row_end;
  const std::uint64_t columns = band.column_end - band.column_begin;
  std::vector<std::byte> row_out(static_cast<std::size_t>(2 * columns));
  while (band.row_begin < end) {
    band.row_end = std::min(end, band.row_begin + kStoredRowsAtOnce);
    load(band);
    for (std::uint64_t row = band.row_begin; row < band.row_end; ++row) {
      decode_row(band, row, row_out.data());
      for (std::uint64_t column = 0; column < columns; ++column) {
        std::memcpy(out + 2 * (column * (end - first) + row - first), row_out.data() + 2 * column,
                    2);
      }
    }
    band.row_begin = band.row_end;
  }
}

void DequantizedContent::read(const ReadRequest& part) const {
  const std::uint64_t lines = weight_.is_transposed ? columns_ : rows_;
  const std::uint64_t length = weight_.is_transposed ? rows_ : columns_;
  const auto show_elements = [&](std::uint64_t element, std::uint64_t count, std::byte* out) {
    while (count > 0) {
      const std::uint64_t line = element / length;
      const std::uint64_t begin = element % length;
      std::uint64_t some = 1;  // lines
      std::uint64_t end = std::min({length, begin + count, begin + kElementsAtOnce});
      if (begin == 0 && end == length) {
        some = std::clamp<std::uint64_t>(std::min(count, kElementsAtOnce) / length, 1,
                                         lines - line % lines);
      }
      Band band{.matrix = line / lines, .foreseen = part.foreseen};
      const std::uint64_t first = line % lines;
      if (weight_.is_transposed) {
        std::tie(band.row_begin, band.row_end) = std::pair(begin, end);
        std::tie(band.column_begin, band.column_end) = std::pair(first, first + some);
      } else {
        std::tie(band.row_begin, band.row_end) = std::pair(first, first + some);
        std::tie(band.column_begin, band.column_end) = std::pair(begin, end);
      }
      show(band, out);
      const std::uint64_t done = some * (end - begin);
      element += done;
      count -= done;
      out += 2 * done;
    }
  };
  // An element of which one byte alone is wanted.
  const auto edge = [&](std::uint64_t element, std::size_t byte) {
    std::array<std::byte, 2> both{};
    show_elements(element, 1, both.data());
    return both.at(byte);
  };
  std::uint64_t offset = part.offset;
  std::span<std::byte> out = part.out;
  if (offset % 2 == 1 && !out.empty()) {
    out.front() = edge(offset / 2, 1);
    out = out.subspan(1);
    ++offset;
  }
  const std::size_t whole = out.size() / 2;
  show_elements(offset / 2, whole, out.data());
  if (out.size() % 2 == 1) out.back() = edge(offset / 2 + whole, 0);
  for (const ByteSourcePtr& other : others_) other->check_unchanged();
}

void DequantizedContent::foresee(const ByteRange& range, Foresight when) const noexcept {
  if (range.empty()) return;
  try {
    const std::uint64_t of_matrix = rows_ * columns_;
    const std::uint64_t first = range.offset() / 2;
    const std::uint64_t last_one = (range.end() - 1) / 2;
    for (std::uint64_t matrix = first / of_matrix; matrix <= last_one / of_matrix; ++matrix) {
      Band band{.matrix = matrix, .row_end = rows_, .column_end = columns_};
      if (!weight_.is_transposed) {
        if (matrix == first / of_matrix) band.row_begin = first % of_matrix / columns_;
        if (matrix == last_one / of_matrix) band.row_end = last_one % of_matrix / columns_ + 1;
        if (band.row_begin + 1 == band.row_end) {
          band.column_begin = first % columns_;
          band.column_end = last_one % columns_ + 1;
        }
      }
      const auto foresee_of = [&](const StoredTensor& tensor, const Bytes& bytes) {
        const std::array wanted{ByteRange::between(tensor.place.offset() + bytes.begin,
                                                   tensor.place.offset() + bytes.end)};
        tensor.source->foresee(wanted, when);
      };
      foresee_of(weight_.codes, bytes_of(band));
      foresee_of(weight_.scales, scale_bytes_of(band));
    }
  } catch (const std::exception&) {
    // A read of the range reports the error.
  }
}

}  // namespace reshardfs
