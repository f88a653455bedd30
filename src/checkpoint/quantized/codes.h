// SPDX-License-Identifier: Apache-2.0
/// Decoders of quantized weights: codes and scales to BFloat16.
/// https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf (E2M1,
/// E2M3, E4M3, E8M0)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "reshardfs/dtype.h"

#include "checkpoint/quantized/quantized_weight.h"

namespace reshardfs {

/// Where codes are among those of their row.
struct PackedCodes {
  CodePacking packing = CodePacking::kStream;  ///< or kInterleaved
  unsigned bits = 8;
  /// From where a code begins whose number is a multiple of eight.
  std::span<const std::byte> bytes{};
  std::uint64_t first = 0;  ///< the first code that is wanted
};

/// Codes of a row with what they are multiplied by. They have 16 bits, as the values will: then all
/// steps make vectors of the same length.
struct ScaledCodes {
  std::span<const std::uint16_t> codes{};
  std::size_t first_run = 0;      ///< so many share the first scale
  std::size_t run = 0;            ///< and so many each of the others
  const float* scales = nullptr;  ///< of each run
  const int* offsets = nullptr;   ///< of each run: is taken from codes of integers
  unsigned bits = 8;              ///< of a code
};

/// The same code, compiled for instructions that not every processor has.
struct Decoder {
  std::string_view name;
  void (*unpack)(const PackedCodes& from, std::span<std::uint16_t> out) noexcept;
  /// The code of four bits in the lower or the upper half of each byte.
  void (*unpack_halves)(std::span<const std::byte> bytes, bool upper, std::uint16_t* out) noexcept;
  /// The same codes, of E2M1, with a power of two for each. Codes that are not 0 get it added to
  /// the exponent.
  /// @param powers in the bits of a BFloat16, at most 2 to the 125th and its inverse.
  /// @param out two bytes for each code.
  void (*decode_powers)(std::span<const std::byte> bytes, bool upper, const std::uint16_t* powers,
                        std::byte* out) noexcept;
  /// The same codes, as unsigned integers. nullptr: unpack_halves() and decode() are as quick.
  /// @param scaled has no codes of its own.
  void (*decode_halves)(std::span<const std::byte> bytes, bool upper, const ScaledCodes& scaled,
                        std::byte* out) noexcept;
  /// @param out two bytes for each code.
  void (*decode)(CodeKind kind, const ScaledCodes& from, std::byte* out) noexcept;
};

/// Those that this processor can run, the fastest one last.
std::span<const Decoder> decoders() noexcept;

/// Whether scales may have this type: 32- and 16-bit floats, Float8E4M3, or exponents.
bool is_scale_type(DType dtype) noexcept;
/// Whether scales of this type are exponents alone: Float8E8M0 and, as the same, UInt8.
constexpr bool is_exponent(DType dtype) noexcept {
  return dtype == DType::kFloat8E8M0 || dtype == DType::kUInt8;
}
/// Scales as float32, all of them exact. E8M0 is a power of two; 255 is NaN.
/// @pre is_scale_type(from)
void scales_as_floats(DType from, std::span<const std::byte> in, float* out) noexcept;

}  // namespace reshardfs
