// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/weight_band.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>

namespace reshardfs {
namespace {

constexpr std::uint64_t kWordBits = 32;
constexpr std::uint64_t kWordBytes = 4;
/// So many codes fill whole bytes.
constexpr std::uint64_t kCodesAtOnce = 8;
/// Where rows are so many times as long as what is wanted of each.
constexpr std::uint64_t kWorthGathering = 4;
constexpr std::uint64_t kVector = 16;

std::uint64_t up(std::uint64_t number, std::uint64_t by) noexcept {
  return number / by + (number % by == 0 ? 0 : 1);
}

std::uint64_t last_of(const Shape& shape, std::size_t from_end) {
  return static_cast<std::uint64_t>(shape[shape.size() - from_end]);
}

std::uint64_t width_of(const StoredTensor& tensor) {
  return static_cast<std::uint64_t>(element_size(tensor.dtype));
}

/// Codes that share a scale.
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

WeightBand::WeightBand(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen,
                       BandMemory& memory)
    : weight_(weight),
      wanted_(wanted),
      foreseen_(foreseen),
      memory_(memory),
      has_one_scale_(weight.has_one_scale()),
      decoder_(decoders().back()),
      first_code_(wanted.column_begin % kCodesAtOnce) {
  codes_ = load(weight.codes, codes_of(weight, wanted), memory.codes);
  load_scales();
  load_offsets();
  unpacked_ = room_in(memory.unpacked, wanted.columns());
  row_ = {.codes = unpacked_, .first_run = unpacked_.size(), .run = unpacked_.size()};
  row_.bits = weight.bits;
  if (has_one_scale_) return;
  const std::uint64_t columns = Block(weight).columns;
  row_.run = static_cast<std::size_t>(columns);
  row_.first_run = static_cast<std::size_t>(columns - wanted.column_begin % columns);
}

WeightBand::Bytes WeightBand::load(const StoredTensor& tensor, const StoredRows& rows,
                                   std::vector<std::byte>& memory) const {
  const ByteRange all = rows.in_file(tensor);
  if (rows.rows > 1 && rows.in_row * kWorthGathering < rows.stride && !tensor.source->is_far()) {
    // A number of bytes that is copied in a few moves, and can be turned in whole vectors.
    const std::uint64_t length = std::min(up(rows.in_row, kVector) * kVector, rows.stride);
    const std::uint64_t place = rows.begin % rows.stride;
    const std::uint64_t before = place - std::min(place, rows.stride - length);
    // In the last row, too, a whole width can be read.
    const std::span<std::byte> all_rows = room_in(memory, (rows.rows + 1) * length);
    const StridedRanges ranges(ByteRange(all.offset() - before, length), rows.rows,
                               {.source = rows.stride, .memory = length});
    if (tensor.source->gather(ranges, all_rows.data())) {
      return {all_rows.subspan(static_cast<std::size_t>(before)), length, length};
    }
  }
  const std::span<std::byte> out = room_in(memory, all.length());
  read_part(*tensor.source, {all.offset(), out, foreseen_});
  return {out, rows.stride, rows.in_row};
}

void WeightBand::load_scales() {
  const DType dtype = weight_.scales.dtype;
  const std::uint64_t width = width_of(weight_.scales);
  const StoredRows rows = scales_of(weight_, wanted_);
  scales_.rows = rows.rows;
  scales_.columns = rows.in_row / width;
  if (!has_one_scale_) {
    const Block block(weight_);
    scales_.first_row = wanted_.row_begin / block.rows;
    scales_.first_column = wanted_.column_begin / block.columns;
  }
  const Bytes stored = load(weight_.scales, rows, memory_.others);
  if (is_exponent(dtype) && !weight_.factor && !is_integer(weight_.kind)) {
    scales_.stored = stored;
  } else {
    find_factors(stored);
  }
}

void WeightBand::find_factors(const Bytes& stored) {
  const DType dtype = weight_.scales.dtype;
  const auto stored_row = [&](std::uint64_t row) {
    return stored.bytes.subspan(
        static_cast<std::size_t>(row * stored.stride),
        static_cast<std::size_t>(scales_.columns * width_of(weight_.scales)));
  };
  factors_ = room_in(memory_.scales, scales_.rows * scales_.columns);
  std::optional<float> factor;
  if (weight_.factor) {
    const std::uint64_t at = element_count(weight_.factor->shape) == 1 ? 0 : wanted_.matrix;
    std::array<std::byte, sizeof(float)> read;
    read_part(*weight_.factor->source,
              {weight_.factor->place.offset() + at * sizeof(float), read, foreseen_});
    factor = std::bit_cast<float>(read);
  }
  const auto bring_together = [&](std::span<float> scales) {
    for (float& scale : scales) scale = weight_.divides ? scale / *factor : scale * *factor;
  };
  if (factor && width_of(weight_.scales) == 1) {
    // There are fewer values than scales.
    std::array<std::byte, 256> all;
    std::array<float, all.size()> values;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i);
    scales_as_floats(dtype, all, values.data());
    bring_together(values);
    auto out = factors_.begin();
    for (std::uint64_t row = 0; row < scales_.rows; ++row) {
      for (const std::byte scale : stored_row(row)) {
        *out++ = values[std::to_integer<std::size_t>(scale)];
      }
    }
    return;
  }
  for (std::uint64_t row = 0; row < scales_.rows; ++row) {
    scales_as_floats(dtype, stored_row(row), factors_.data() + row * scales_.columns);
  }
  if (factor) bring_together(factors_);
}

std::span<const float> WeightBand::factors() {
  if (factors_.empty()) find_factors(scales_.stored);
  return factors_;
}

/// Zero points, and what all codes have in common.
void WeightBand::load_offsets() {
  if (!is_integer(weight_.kind)) {
    scales_.offsets = room_in(memory_.no_offsets, scales_.rows * scales_.columns);
    return;
  }
  scales_.offsets = room_in(memory_.offsets, scales_.rows * scales_.columns);
  std::fill(scales_.offsets.begin(), scales_.offsets.end(), weight_.offset);
  const auto add = [&](std::size_t at, int stored) {
    const int zero = stored - weight_.zero_offset;
    scales_.offsets[at] += weight_.zero_modulus == 0 ? zero : zero % weight_.zero_modulus;
  };
  switch (weight_.zero_packing) {
    case ZeroPacking::kNone:
      return;
    case ZeroPacking::kInt8: {
      const Bytes stored = load(weight_.zeros, of_blocks(weight_, wanted_, 1), memory_.others);
      for (std::uint64_t row = 0; row < scales_.rows; ++row) {
        for (std::uint64_t column = 0; column < scales_.columns; ++column) {
          const std::byte zero = stored.bytes[row * stored.stride + column];
          add(row * scales_.columns + column, std::to_integer<std::int8_t>(zero));
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
      const Bytes stored =
          load(weight_.zeros,
               {(wanted_.matrix * words + first) * row_bytes + scales_.first_column * kWordBytes,
                behind - first, scales_.columns * kWordBytes, row_bytes},
               memory_.others);
      const std::uint64_t mask = (1U << weight_.bits) - 1;
      for (std::uint64_t row = 0; row < scales_.rows; ++row) {
        const std::uint64_t bit = (scales_.first_row + row) * weight_.bits;
        const std::uint64_t shift = bit % kWordBits;
        for (std::uint64_t column = 0; column < scales_.columns; ++column) {
          const std::byte* const word =
              stored.bytes.data() + (bit / kWordBits - first) * stored.stride + column * kWordBytes;
          std::uint32_t low = 0;
          std::uint32_t high = 0;
          std::memcpy(&low, word, sizeof low);
          if (shift + weight_.bits > kWordBits)
            std::memcpy(&high, word + stored.stride, sizeof high);
          const std::uint64_t both = low | std::uint64_t{high} << kWordBits;
          add(row * scales_.columns + column, static_cast<int>(both >> shift & mask));
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
          wanted_.matrix * up(last_of(weight_.shape, 2), Block(weight_).rows) + scales_.first_row;
      const ByteRange in_row = packed_bytes(packing, weight_.bits, scales_.first_column,
                                            scales_.first_column + scales_.columns);
      const Bytes stored =
          load(weight_.zeros,
               {before * row_bytes + in_row.offset(), scales_.rows, in_row.length(), row_bytes},
               memory_.others);
      std::vector<std::uint16_t> zeros(static_cast<std::size_t>(scales_.columns));
      for (std::uint64_t row = 0; row < scales_.rows; ++row) {
        const auto bytes = stored.bytes.subspan(row * stored.stride, in_row.length());
        decoders().back().unpack(
            {packing, weight_.bits, bytes, scales_.first_column % kCodesAtOnce}, zeros);
        for (std::size_t i = 0; i < zeros.size(); ++i) add(row * scales_.columns + i, zeros[i]);
      }
      return;
    }
  }
}

void WeightBand::decode_row(std::uint64_t row, std::byte* out) {
  const auto bytes =
      codes_.bytes.subspan(static_cast<std::size_t>((row - wanted_.row_begin) * codes_.stride));
  decoder_.unpack({weight_.packing, weight_.bits, bytes, first_code_}, unpacked_);
  std::uint64_t scale_row = 0;
  if (scales_.rows > 1) scale_row = row / Block(weight_).rows - scales_.first_row;
  row_.scales = factors().data() + scale_row * scales_.columns;
  row_.offsets = scales_.offsets.data() + scale_row * scales_.columns;
  decoder_.decode(weight_.kind, row_, out);
}

}  // namespace reshardfs
