// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/turned_band.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace reshardfs {
namespace {

constexpr std::uint64_t kCodesOfWord = 8;  ///< of four bits

template <typename T>
struct Vector;
template <>
struct Vector<std::uint8_t> {
  using Type = std::uint8_t __attribute__((vector_size(16)));
};
template <>
struct Vector<std::uint32_t> {
  using Type = std::uint32_t __attribute__((vector_size(16)));
};

/// As many elements as a vector has, of as many rows.
template <typename T>
constexpr std::size_t kSide = 16 / sizeof(T);

/// Each round puts elements of two rows by turns: in the end, rows are columns.
template <typename T>
void transpose_square(const std::byte* in, std::uint64_t in_stride, std::byte* out,
                      std::uint64_t out_stride) noexcept {
  using Row = typename Vector<T>::Type;
  using Rows = std::array<Row, kSide<T>>;
  // Without loops, or the rows are kept in memory.
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    Rows rows;
    (std::memcpy(&rows[i], in + i * in_stride, sizeof(Row)), ...);
    const auto lower = [](Row a, Row b) {
      return __builtin_shufflevector(a, b, (i / 2 + i % 2 * kSide<T>)...);
    };
    const auto upper = [](Row a, Row b) {
      return __builtin_shufflevector(a, b, (kSide<T> / 2 + i / 2 + i % 2 * kSide<T>)...);
    };
    const auto by_turns = [&](const Rows& of) {
      return Rows{(i % 2 == 0 ? lower(of[i / 2], of[i / 2 + kSide<T> / 2])
                              : upper(of[i / 2], of[i / 2 + kSide<T> / 2]))...};
    };
    for (std::size_t round = 1; round < kSide<T>; round *= 2) rows = by_turns(rows);
    (std::memcpy(out + i * out_stride, &rows[i], sizeof(Row)), ...);
  }
  (std::make_index_sequence<kSide<T>>());
}

struct Side {
  std::uint64_t count;   ///< of elements
  std::uint64_t stride;  ///< in bytes, from one to the next
};

/// Rows of elements as columns.
template <typename T>
void transpose(const std::byte* in, Side rows, std::uint64_t columns, std::uint64_t stride,
               std::byte* out) noexcept {
  const std::uint64_t whole_rows = rows.count - rows.count % kSide<T>;
  const std::uint64_t whole_columns = columns - columns % kSide<T>;
  for (std::uint64_t column = 0; column < whole_columns; column += kSide<T>) {
    for (std::uint64_t row = 0; row < whole_rows; row += kSide<T>) {
      transpose_square<T>(in + row * rows.stride + column * sizeof(T), rows.stride,
                          out + column * stride + row * sizeof(T), stride);
    }
  }
  for (std::uint64_t column = 0; column < columns; ++column) {
    for (std::uint64_t row = column < whole_columns ? whole_rows : 0; row < rows.count; ++row) {
      std::memcpy(out + column * stride + row * sizeof(T),
                  in + row * rows.stride + column * sizeof(T), sizeof(T));
    }
  }
}

/// Columns of bytes, each of `rows` bytes. Behind those that are wanted, others may follow.
std::span<const std::byte> turned_bytes(const WeightBand::Bytes& from, std::uint64_t rows,
                                        std::uint64_t columns, std::vector<std::byte>& memory) {
  constexpr std::uint64_t kAtOnce = kSide<std::uint8_t>;
  const std::uint64_t in_squares = (columns + kAtOnce - 1) / kAtOnce * kAtOnce;
  const std::uint64_t all = std::min(in_squares, from.width);
  const auto out = room_in(memory, all * rows);
  transpose<std::uint8_t>(from.bytes.data(), {rows, from.stride}, all, rows, out.data());
  return out;
}

template <typename T>
std::span<const T> turned(std::span<const T> values, const WeightBand::Scales& scales,
                          std::vector<T>& memory) {
  const std::span<T> out = room_in(memory, values.size());
  static_assert(sizeof(T) == sizeof(std::uint32_t));
  transpose<std::uint32_t>(reinterpret_cast<const std::byte*>(values.data()),
                           {scales.rows, scales.columns * sizeof(T)}, scales.columns,
                           scales.rows * sizeof(T), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

}  // namespace

TurnedBand::TurnedBand(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen,
                       TurnedMemory& memory)
    : weight_(weight),
      wanted_(wanted),
      memory_(memory),
      decoder_(decoders().back()),
      band_(weight, wanted, foreseen, memory.band),
      run_(weight.has_one_scale() ? wanted.row_end
                                  : static_cast<std::uint64_t>(weight.block.rows)) {
  turn_codes();
  turn_scales();
}

void TurnedBand::turn_scales() {
  const bool may_be_powers =
      weight_.kind == CodeKind::kE2M1 && run_ == 1 && weight_.packing != CodePacking::kWordsOfRows;
  if (may_be_powers && find_powers()) return;
  const WeightBand::Scales& scales = band_.scales();
  scales_ = turned<float>(band_.factors(), scales, memory_.scales);
  offsets_ = scales.offsets;
  if (is_integer(weight_.kind)) offsets_ = turned(offsets_, scales, memory_.offsets);
}

void TurnedBand::turn_codes() {
  const StoredRows stored = codes_of(weight_, wanted_);
  const WeightBand::Bytes& codes = band_.codes();
  if (weight_.packing != CodePacking::kWordsOfRows) {
    column_bytes_ = stored.rows;
    codes_ = turned_bytes(codes, stored.rows, stored.in_row, memory_.codes);
    return;
  }
  column_bytes_ = stored.rows * sizeof(std::uint32_t);
  const std::uint64_t columns = stored.in_row / sizeof(std::uint32_t);
  const auto out = room_in(memory_.codes, columns * column_bytes_);
  transpose<std::uint32_t>(codes.bytes.data(), {stored.rows, codes.stride}, columns, column_bytes_,
                           out.data());
  codes_ = out;
}

/// Scales as what they add to the exponents of all codes but 0, which are -1 to 2.
bool TurnedBand::find_powers() {
  constexpr unsigned kBias = 127;
  constexpr unsigned kLeast = kBias - 125;
  constexpr unsigned kMost = kBias + 125;
  constexpr unsigned kFraction = 7;  // bits of a BFloat16's fraction
  const WeightBand::Scales& scales = band_.scales();
  if (scales.stored.bytes.empty()) return false;
  const auto exponents =
      turned_bytes(scales.stored, scales.rows, scales.columns, memory_.exponents);
  const auto powers = room_in(memory_.powers, scales.rows * scales.columns);
  unsigned others = 0;
  // A number that compilers know makes vectors.
  const auto find = [&](auto count, std::size_t at) {
    std::uint16_t* const out = powers.data() + at;
    const std::byte* const in = exponents.data() + at;
    std::uint16_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto exponent = std::to_integer<std::uint16_t>(in[i]);
      const auto above = static_cast<std::uint16_t>(exponent - kLeast);
      wrong = static_cast<std::uint16_t>(wrong | (above > kMost - kLeast ? 1 : 0));
      out[i] = static_cast<std::uint16_t>((exponent - kBias) << kFraction);
    }
    others |= wrong;
  };
  constexpr std::size_t kAtOnce = 16;
  std::size_t at = 0;
  for (; at + kAtOnce <= powers.size(); at += kAtOnce) {
    find(std::integral_constant<std::size_t, kAtOnce>(), at);
  }
  for (; at < powers.size(); ++at) find(std::integral_constant<std::size_t, 1>(), at);
  if (others != 0) return false;
  powers_ = powers;
  return true;
}

/// The byte of a column's codes from a row on, and the half of it, where a byte has two codes of a
/// row.
TurnedBand::Halves TurnedBand::halves_of(std::uint64_t column, std::uint64_t row,
                                         std::uint64_t count) const {
  // In bytes, the fields of AWQ's words are the codes 0, 2, 4, 6, 1, 3, 5 and 7.
  constexpr std::array<std::uint8_t, kCodesOfWord> kFields{0, 4, 1, 5, 2, 6, 3, 7};
  std::uint64_t field = column - wanted_.column_begin / kCodesOfWord * kCodesOfWord;
  if (weight_.packing == CodePacking::kInterleaved) {
    field = field - field % kCodesOfWord + kFields[field % kCodesOfWord];
  }
  return {codes_.subspan(field / 2 * column_bytes_ + (row - wanted_.row_begin), count),
          field % 2 == 1};
}

std::span<const std::uint16_t> TurnedBand::unpacked(std::uint64_t column, std::uint64_t row,
                                                    std::uint64_t count) {
  const auto out = room_in(memory_.band.unpacked, count);
  if (weight_.packing == CodePacking::kWordsOfRows) {
    const std::uint64_t first_row = wanted_.row_begin - wanted_.row_begin % (32 / weight_.bits);
    const auto words =
        codes_.subspan((column - wanted_.column_begin) * column_bytes_, column_bytes_);
    decoder_.unpack({CodePacking::kStream, weight_.bits, words, row - first_row}, out);
    return out;
  }
  const Halves halves = halves_of(column, row, count);
  decoder_.unpack_halves(halves.bytes, halves.upper, out.data());
  return out;
}

void TurnedBand::decode_column(std::uint64_t column, std::uint64_t row, std::uint64_t count,
                               std::byte* out) {
  const WeightBand::Scales& scales = band_.scales();
  std::uint64_t scale = 0;
  if (!weight_.has_one_scale()) {
    const std::uint64_t of_columns =
        column / static_cast<std::uint64_t>(weight_.block.columns) - scales.first_column;
    scale = of_columns * scales.rows + row / run_ - scales.first_row;
  }
  if (!powers_.empty()) {
    const Halves halves = halves_of(column, row, count);
    return decoder_.decode_powers(halves.bytes, halves.upper, powers_.data() + scale, out);
  }
  ScaledCodes codes;
  codes.first_run = static_cast<std::size_t>(run_ - row % run_);
  codes.run = static_cast<std::size_t>(run_);
  codes.scales = scales_.data() + scale;
  codes.offsets = offsets_.data() + scale;
  codes.bits = weight_.bits;
  const bool is_in_halves = weight_.packing != CodePacking::kWordsOfRows;
  if (is_in_halves && weight_.kind == CodeKind::kUnsigned && decoder_.decode_halves != nullptr) {
    const Halves halves = halves_of(column, row, count);
    return decoder_.decode_halves(halves.bytes, halves.upper, codes, out);
  }
  codes.codes = unpacked(column, row, count);
  decoder_.decode(weight_.kind, codes, out);
}

}  // namespace reshardfs
