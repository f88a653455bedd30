// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/quantized/weight_band.h"

namespace reshardfs {

/// Memory of a TurnedBand, for the next one to use again.
struct TurnedMemory {
  BandMemory band;
  std::vector<std::byte> codes;
  std::vector<std::byte> exponents;
  std::vector<float> scales;
  std::vector<int> offsets;
  std::vector<std::uint16_t> powers;
};

/// A rectangle of a weight that is shown transposed, column by column. Bytes or words of codes are
/// turned before they are decoded: they are fewer than values.
class TurnedBand {
 public:
  /// @param memory for this alone as long as it is there.
  /// @throws Error as ByteSource::read_at() of the files.
  TurnedBand(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen,
             TurnedMemory& memory);

  /// Some rows of a column in BFloat16, both in the rectangle.
  void decode_column(std::uint64_t column, std::uint64_t row, std::uint64_t count, std::byte* out);

 private:
  void turn_codes();
  void turn_scales();
  /// @return false if not all scales can be such.
  bool find_powers();
  struct Halves {
    std::span<const std::byte> bytes;
    bool upper;
  };
  Halves halves_of(std::uint64_t column, std::uint64_t row, std::uint64_t count) const;
  std::span<const std::uint16_t> unpacked(std::uint64_t column, std::uint64_t row,
                                          std::uint64_t count);

  const QuantizedWeight& weight_;
  WeightRectangle wanted_;
  TurnedMemory& memory_;
  const Decoder& decoder_;
  WeightBand band_;
  std::span<const std::byte> codes_;  ///< columns of bytes or words
  std::uint64_t column_bytes_ = 0;
  std::uint64_t run_;  ///< rows that share a scale
  std::span<const float> scales_;
  std::span<const int> offsets_;
  std::span<const std::uint16_t> powers_;  ///< in the place of scales; empty: not all are such
};

}  // namespace reshardfs
