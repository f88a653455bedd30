// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/weight_band.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace reshardfs {
namespace {

constexpr std::uint64_t kWordBits = 32;
constexpr std::uint64_t kWordBytes = 4;
/// So many codes fill whole bytes.
constexpr std::uint64_t kCodesAtOnce = 8;
/// Where rows are so many times as long as what is wanted of each.
constexpr std::uint64_t kWorthGathering = 4;

std::uint64_t up(std::uint64_t number, std::uint64_t by) noexcept {
  return number / by + (number % by == 0 ? 0 : 1);
}

std::uint64_t last_of(const Shape& shape, std::size_t from_end) {
  return static_cast<std::uint64_t>(shape[shape.size() - from_end]);
}

std::uint64_t width_of(const StoredTensor& tensor) {
  return static_cast<std::uint64_t>(element_size(tensor.dtype));
}

/// What shares a scale.
struct Block {
  explicit Block(const QuantizedWeight& weight)
      : rows(static_cast<std::uint64_t>(weight.block.rows)),
        columns(static_cast<std::uint64_t>(weight.block.columns)) {}

  std::uint64_t rows;
  std::uint64_t columns;
};

/// Scales of the blocks in which a rectangle lies: of each, `width` bytes.
StoredRows of_blocks(const QuantizedWeight& weight, const WeightRectangle& wanted,
                     std::uint64_t width) {
  if (weight.has_one_scale()) return {0, 1, width, width};
  const Block block(weight);
  const std::uint64_t first_row = wanted.row_begin / block.rows;
  const std::uint64_t first_column = wanted.column_begin / block.columns;
  const std::uint64_t of_row = up(last_of(weight.shape, 1), block.columns);
  const std::uint64_t before = wanted.matrix * up(last_of(weight.shape, 2), block.rows) + first_row;
  return {(before * of_row + first_column) * width,
          (wanted.row_end - 1) / block.rows - first_row + 1,
          ((wanted.column_end - 1) / block.columns - first_column + 1) * width, of_row * width};
}

/// Bytes of a row of codes in which some of them are, from a multiple of eight on.
ByteRange packed_bytes(CodePacking packing, unsigned bits, std::uint64_t begin, std::uint64_t end) {
  switch (packing) {
    case CodePacking::kStream:
      return ByteRange::between(begin / kCodesAtOnce * bits, up(end * bits, 8));
    case CodePacking::kInterleaved:
      return ByteRange::between(begin / kCodesAtOnce * kWordBytes,
                                up(end, kCodesAtOnce) * kWordBytes);
    case CodePacking::kWordsOfRows:
      break;
  }
  return ByteRange::between(begin * kWordBytes, end * kWordBytes);
}

}  // namespace

ByteRange StoredRows::in_file(const StoredTensor& tensor) const {
  return {tensor.place.offset() + begin, (rows - 1) * stride + in_row};
}

StoredRows codes_of(const QuantizedWeight& weight, const WeightRectangle& wanted) {
  std::uint64_t rows = last_of(weight.shape, 2);
  std::uint64_t first = wanted.row_begin;
  std::uint64_t behind = wanted.row_end;
  if (weight.packing == CodePacking::kWordsOfRows) {
    const std::uint64_t of_word = kWordBits / weight.bits;
    rows = up(rows, of_word);
    first /= of_word;
    behind = up(behind, of_word);
  }
  const ByteRange in_row =
      packed_bytes(weight.packing, weight.bits, wanted.column_begin, wanted.column_end);
  return {(wanted.matrix * rows + first) * weight.row_bytes + in_row.offset(), behind - first,
          in_row.length(), weight.row_bytes};
}

StoredRows scales_of(const QuantizedWeight& weight, const WeightRectangle& wanted) {
  return of_blocks(weight, wanted, width_of(weight.scales));
}

WeightBand::WeightBand(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen)
    : weight_(weight),
      wanted_(wanted),
      foreseen_(foreseen),
      has_one_scale_(weight.has_one_scale()),
      decoder_(decoders().back()),
      first_code_(wanted.column_begin % kCodesAtOnce) {
  codes_ = load(weight.codes, codes_of(weight, wanted));
  load_scales();
  load_offsets();
  unpacked_.resize(static_cast<std::size_t>(wanted.columns()));
  row_ = {.codes = unpacked_, .first_run = unpacked_.size(), .run = unpacked_.size()};
  if (has_one_scale_) return;
  const std::uint64_t columns = Block(weight).columns;
  row_.run = static_cast<std::size_t>(columns);
  row_.first_run = static_cast<std::size_t>(columns - wanted.column_begin % columns);
}

WeightBand::Bytes WeightBand::load(const StoredTensor& tensor, const StoredRows& rows) const {
  const ByteRange all = rows.in_file(tensor);
  Bytes out;
  if (rows.rows > 1 && rows.in_row * kWorthGathering < rows.stride && !tensor.source->is_far()) {
    out.bytes.resize(static_cast<std::size_t>(rows.rows * rows.in_row));
    out.stride = rows.in_row;
    const StridedRanges ranges(ByteRange(all.offset(), rows.in_row), rows.rows,
                               {.source = rows.stride, .memory = rows.in_row});
    if (tensor.source->gather(ranges, out.bytes.data())) return out;
  }
  out.bytes.resize(static_cast<std::size_t>(all.length()));
  out.stride = rows.stride;
  read_part(*tensor.source, {all.offset(), out.bytes, foreseen_});
  return out;
}

void WeightBand::load_scales() {
  const std::uint64_t width = width_of(weight_.scales);
  const StoredRows rows = scales_of(weight_, wanted_);
  scale_rows_ = rows.rows;
  scale_columns_ = rows.in_row / width;
  if (!has_one_scale_) {
    const Block block(weight_);
    scale_row_ = wanted_.row_begin / block.rows;
    scale_column_ = wanted_.column_begin / block.columns;
  }
  const Bytes stored = load(weight_.scales, rows);
  scales_.resize(static_cast<std::size_t>(scale_rows_ * scale_columns_));
  for (std::uint64_t row = 0; row < scale_rows_; ++row) {
    scales_as_floats(weight_.scales.dtype,
                     std::span(stored.bytes).subspan(row * stored.stride, rows.in_row),
                     scales_.data() + row * scale_columns_);
  }
  if (!weight_.factor) return;
  const std::uint64_t at = element_count(weight_.factor->shape) == 1 ? 0 : wanted_.matrix;
  const Bytes read = load(*weight_.factor, {at * sizeof(float), 1, sizeof(float), sizeof(float)});
  float factor = 0;
  std::memcpy(&factor, read.bytes.data(), sizeof factor);
  for (float& scale : scales_) scale = weight_.divides ? scale / factor : scale * factor;
}

/// Zero points, and what all codes have in common.
void WeightBand::load_offsets() {
  offsets_.assign(scales_.size(), weight_.offset);
  const auto add = [&](std::size_t at, int stored) {
    const int zero = stored - weight_.zero_offset;
    offsets_[at] += weight_.zero_modulus == 0 ? zero : zero % weight_.zero_modulus;
  };
  switch (weight_.zero_packing) {
    case ZeroPacking::kNone:
      return;
    case ZeroPacking::kInt8: {
      const Bytes stored = load(weight_.zeros, of_blocks(weight_, wanted_, 1));
      for (std::uint64_t row = 0; row < scale_rows_; ++row) {
        for (std::uint64_t column = 0; column < scale_columns_; ++column) {
          const std::byte zero = stored.bytes[row * stored.stride + column];
          add(row * scale_columns_ + column, std::to_integer<std::int8_t>(zero));
        }
      }
      return;
    }
    case ZeroPacking::kColumns: {
      // The field of a row may lie in two words, one below the other.
      const std::uint64_t row_bytes = last_of(weight_.zeros.shape, 1) * kWordBytes;
      const std::uint64_t words = up(last_of(weight_.shape, 2) * weight_.bits, kWordBits);
      const std::uint64_t first = wanted_.row_begin * weight_.bits / kWordBits;
      const std::uint64_t behind = up(wanted_.row_end * weight_.bits, kWordBits);
      const Bytes stored = load(
          weight_.zeros, {(wanted_.matrix * words + first) * row_bytes + scale_column_ * kWordBytes,
                          behind - first, scale_columns_ * kWordBytes, row_bytes});
      const std::uint64_t mask = (1U << weight_.bits) - 1;
      for (std::uint64_t row = 0; row < scale_rows_; ++row) {
        const std::uint64_t bit = (scale_row_ + row) * weight_.bits;
        const std::uint64_t shift = bit % kWordBits;
        for (std::uint64_t column = 0; column < scale_columns_; ++column) {
          const std::byte* const word =
              stored.bytes.data() + (bit / kWordBits - first) * stored.stride + column * kWordBytes;
          std::uint32_t low = 0;
          std::uint32_t high = 0;
          std::memcpy(&low, word, sizeof low);
          if (shift + weight_.bits > kWordBits)
            std::memcpy(&high, word + stored.stride, sizeof high);
          const std::uint64_t both = low | std::uint64_t{high} << kWordBits;
          add(row * scale_columns_ + column, static_cast<int>(both >> shift & mask));
        }
      }
      return;
    }
    case ZeroPacking::kRows: {
      const CodePacking packing = weight_.packing == CodePacking::kInterleaved
                                      ? CodePacking::kInterleaved
                                      : CodePacking::kStream;
      const std::uint64_t row_bytes = last_of(weight_.zeros.shape, 1) * kWordBytes;
      const std::uint64_t before =
          wanted_.matrix * up(last_of(weight_.shape, 2), Block(weight_).rows) + scale_row_;
      const ByteRange in_row =
          packed_bytes(packing, weight_.bits, scale_column_, scale_column_ + scale_columns_);
      const Bytes stored = load(weight_.zeros, {before * row_bytes + in_row.offset(), scale_rows_,
                                                in_row.length(), row_bytes});
      std::vector<std::uint16_t> zeros(static_cast<std::size_t>(scale_columns_));
      for (std::uint64_t row = 0; row < scale_rows_; ++row) {
        const auto bytes = std::span(stored.bytes).subspan(row * stored.stride, in_row.length());
        decoders().back().unpack({packing, weight_.bits, bytes, scale_column_ % kCodesAtOnce},
                                 zeros);
        for (std::size_t i = 0; i < zeros.size(); ++i) add(row * scale_columns_ + i, zeros[i]);
      }
      return;
    }
  }
}

void WeightBand::decode_row(std::uint64_t row, std::byte* out) {
  std::uint64_t stored_row = row - wanted_.row_begin;
  std::uint64_t first = first_code_;
  if (weight_.packing == CodePacking::kWordsOfRows) {
    const std::uint64_t of_word = kWordBits / weight_.bits;
    stored_row = row / of_word - wanted_.row_begin / of_word;
    first = row % of_word;
  }
  const auto bytes = std::span<const std::byte>(codes_.bytes).subspan(stored_row * codes_.stride);
  decoder_.unpack({weight_.packing, weight_.bits, bytes, first}, unpacked_);
  std::uint64_t scale_row = 0;
  if (scale_rows_ > 1) scale_row = row / Block(weight_).rows - scale_row_;
  row_.scales = scales_.data() + scale_row * scale_columns_;
  row_.offsets = offsets_.data() + scale_row * scale_columns_;
  decoder_.decode(weight_.kind, row_, out);
}

}  // namespace reshardfs
