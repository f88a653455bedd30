// SPDX-License-Identifier: Apache-2.0
#include "check/element_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/cast.h"

namespace reshardfs {
namespace {

using ByteTable = std::array<double, 256>;

/// Float16 without its lower byte.
double from_e5m2(std::uint8_t bits) noexcept {
  const auto half = static_cast<std::uint16_t>(bits << 8U);
  double value = 0;
  cast_elements(DType::kFloat16, reinterpret_cast<const std::byte*>(&half), DType::kFloat64,
                reinterpret_cast<std::byte*>(&value), 1);
  return value;
}

/// A power of two.
double from_e8m0(std::uint8_t bits) noexcept {
  return bits == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1, bits - 127);
}

/// Types without infinity and negative zero, in whose place they have their NaN.
template <int kFractionBits, int kBias>
double from_fnuz(std::uint8_t bits) noexcept {
  if (bits == 0x80) return std::numeric_limits<double>::quiet_NaN();
  constexpr int kOne = 1 << kFractionBits;
  const int exponent = (bits & 0x7f) >> kFractionBits;
  const int fraction = bits & (kOne - 1);
  const double size = exponent == 0 ? std::ldexp(fraction, 1 - kBias - kFractionBits)
                                    : std::ldexp(kOne + fraction, exponent - kBias - kFractionBits);
  return (bits & 0x80U) != 0 ? -size : size;
}

/// No infinity; all ones is NaN.
double from_e4m3(std::uint8_t bits) noexcept {
  const int exponent = bits >> 3U & 0xf;
  const int fraction = bits & 0x7;
  double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  if (exponent == 0xf && fraction == 0x7) size = std::numeric_limits<double>::quiet_NaN();
  return (bits & 0x80U) != 0 ? -size : size;
}

ByteTable table_of(double (*value)(std::uint8_t)) {
  ByteTable table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = value(static_cast<std::uint8_t>(i));
  return table;
}

/// nullptr: of a type whose elements are no bytes.
const ByteTable* byte_table(DType dtype) noexcept {
  static const ByteTable e5m2 = table_of(from_e5m2);
  static const ByteTable e4m3 = table_of(from_e4m3);
  static const ByteTable e8m0 = table_of(from_e8m0);
  static const ByteTable e4m3fnuz = table_of(from_fnuz<3, 8>);
  static const ByteTable e5m2fnuz = table_of(from_fnuz<2, 16>);
  switch (dtype) {
    case DType::kFloat8E5M2:
      return &e5m2;
    case DType::kFloat8E4M3:
      return &e4m3;
    case DType::kFloat8E8M0:
      return &e8m0;
    case DType::kFloat8E4M3FNUZ:
      return &e4m3fnuz;
    case DType::kFloat8E5M2FNUZ:
      return &e5m2fnuz;
    default:
      return nullptr;
  }
}

template <typename Integer>
void widen_integers(const std::byte* in, std::size_t count, WideReal* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    Integer value{};
    std::memcpy(&value, in + i * sizeof value, sizeof value);
    out[i] = static_cast<WideReal>(value);
  }
}

}  // namespace

bool has_numbers(DType dtype) noexcept {
  return is_array(dtype) && !is_packed(dtype) && dtype != DType::kComplex64;
}

bool is_floating(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3:
    case DType::kFloat8E8M0:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
      return true;
    default:
      return false;
  }
}

void widen(DType dtype, const std::byte* in, std::size_t count, double* out) noexcept {
  if (const ByteTable* const table = byte_table(dtype)) {
    for (std::size_t i = 0; i < count; ++i) out[i] = (*table)[std::to_integer<std::size_t>(in[i])];
    return;
  }
  cast_elements(dtype, in, DType::kFloat64, reinterpret_cast<std::byte*>(out), count);
}

void widen(DType dtype, const std::byte* in, std::size_t count, WideReal* out) noexcept {
  switch (dtype) {
    case DType::kInt4:
    case DType::kInt8:
      return widen_integers<std::int8_t>(in, count, out);
    case DType::kInt16:
      return widen_integers<std::int16_t>(in, count, out);
    case DType::kUInt16:
      return widen_integers<std::uint16_t>(in, count, out);
    case DType::kInt32:
      return widen_integers<std::int32_t>(in, count, out);
    case DType::kUInt32:
      return widen_integers<std::uint32_t>(in, count, out);
    case DType::kInt64:
      return widen_integers<std::int64_t>(in, count, out);
    case DType::kUInt64:
      return widen_integers<std::uint64_t>(in, count, out);
    case DType::kBool:
    case DType::kUInt8:
    case DType::kString:
    case DType::kMap:
      return widen_integers<std::uint8_t>(in, count, out);
    default:
      break;
  }
  std::array<double, 64> tile{};
  const auto size = static_cast<std::size_t>(element_size(dtype));
  for (std::size_t done = 0; done < count; done += tile.size()) {
    const std::size_t part = std::min(tile.size(), count - done);
    widen(dtype, in + done * size, part, tile.data());
    std::copy_n(tile.data(), part, out + done);
  }
}

std::string element_text(DType dtype, const std::byte* element) {
  if (is_array(dtype) && !has_numbers(dtype)) {
    std::string text = "0x";
    for (std::int64_t i = 0; i < element_size(dtype); ++i) {
      text += fmt::format("{:02x}", std::to_integer<unsigned>(element[i]));
    }
    return text;
  }
  if (dtype == DType::kFloat64) {
    double value = 0;
    widen(dtype, element, 1, &value);
    return fmt::format("{}", value);
  }
  if (is_floating(dtype)) {
    double value = 0;
    widen(dtype, element, 1, &value);
    return fmt::format("{}", static_cast<float>(value));
  }
  WideReal value = 0;
  widen(dtype, element, 1, &value);
  return value < 0 ? fmt::format("{}", static_cast<std::int64_t>(value))
                   : fmt::format("{}", static_cast<std::uint64_t>(value));
}

}  // namespace reshardfs
