// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/quantized/codes.h"
#include "checkpoint/quantized/quantized_weight.h"

namespace reshardfs {

/// Rows and columns of one matrix of a weight, as stored; not empty.
struct WeightRectangle {
  std::uint64_t matrix = 0;
  std::uint64_t row_begin = 0;
  std::uint64_t row_end = 0;
  std::uint64_t column_begin = 0;
  std::uint64_t column_end = 0;

  std::uint64_t columns() const noexcept { return column_end - column_begin; }
};

/// As many bytes of each of some rows of a tensor.
struct StoredRows {
  std::uint64_t begin = 0;  ///< in the tensor
  std::uint64_t rows = 0;
  std::uint64_t in_row = 0;
  std::uint64_t stride = 0;  ///< from row to row

  ByteRange in_file(const StoredTensor& tensor) const;
};

StoredRows codes_of(const QuantizedWeight& weight, const WeightRectangle& wanted);
StoredRows scales_of(const QuantizedWeight& weight, const WeightRectangle& wanted);

/// Memory of a WeightBand, for the next one to use again: what is allocated anew for each read has
/// pages that the kernel must fill with zeros first.
struct BandMemory {
  std::vector<std::byte> codes;
  std::vector<std::byte> others;  ///< scales, then zero points, as they are stored
  std::vector<float> scales;
  std::vector<int> offsets;             ///< one for each scale
  std::vector<int> no_offsets;          ///< likewise, all 0
  std::vector<std::uint16_t> unpacked;  ///< codes of a row, or of a column
};

/// As much of a memory that grows to the most that was needed.
template <typename T>
std::span<T> room_in(std::vector<T>& memory, std::uint64_t count) {
  if (memory.size() < count) memory.resize(static_cast<std::size_t>(count));
  return std::span(memory).first(static_cast<std::size_t>(count));
}

/// Codes and scales of a rectangle, in memory. Reads what it needs, and no more where the file can
/// do that.
class WeightBand {
 public:
  /// @param memory for this alone as long as it is there.
  /// @throws Error as ByteSource::read_at() of the files.
  WeightBand(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen,
             BandMemory& memory);
  WeightBand(const WeightBand&) = delete;
  WeightBand& operator=(const WeightBand&) = delete;
  ~WeightBand() = default;

  /// Columns of a row of the rectangle in BFloat16.
  void decode_row(std::uint64_t row, std::byte* out);

  struct Bytes {
    std::span<const std::byte> bytes{};
    std::uint64_t stride = 0;  ///< from row to row
    /// Of each row, what may be read: what is wanted, and perhaps some bytes behind it.
    std::uint64_t width = 0;
  };
  /// Rows of codes, or of words, from the first one of the rectangle. A row begins with the code of
  /// a column whose number is a multiple of eight.
  const Bytes& codes() const noexcept { return codes_; }

  /// Of the blocks in which the rectangle lies, row by row.
  struct Scales {
    std::uint64_t first_row = 0;  ///< of all scales of the matrix
    std::uint64_t first_column = 0;
    std::uint64_t rows = 0;
    std::uint64_t columns = 0;
    Bytes stored{};  ///< if they are exponents, see is_exponent(); else empty
    std::span<int> offsets{};
  };
  const Scales& scales() const noexcept { return scales_; }
  /// The same as numbers. Exponents become numbers in the first call.
  std::span<const float> factors();

 private:
  Bytes load(const StoredTensor& tensor, const StoredRows& rows,
             std::vector<std::byte>& memory) const;
  void load_scales();
  void find_factors(const Bytes& stored);
  void load_offsets();

  const QuantizedWeight& weight_;
  WeightRectangle wanted_;
  bool foreseen_;
  BandMemory& memory_;
  bool has_one_scale_;
  const Decoder& decoder_;
  std::uint64_t first_code_;  ///< of a row, in the bytes that are loaded
  Bytes codes_;
  Scales scales_;
  std::span<float> factors_;
  std::span<std::uint16_t> unpacked_;  ///< of a row
  ScaledCodes row_;                    ///< those, with the scales of the row
};

}  // namespace reshardfs
