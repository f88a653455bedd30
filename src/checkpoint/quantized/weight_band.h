// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Codes and scales of a rectangle, in memory. Reads what it needs, and no more where the file can
/// do that.
class WeightBand {
 public:
  /// @throws Error as ByteSource::read_at() of the files.
  WeightBand(const QuantizedWeight& weight, const WeightRectangle& wanted, bool foreseen);
  WeightBand(const WeightBand&) = delete;
  WeightBand& operator=(const WeightBand&) = delete;
  ~WeightBand() = default;

  /// Columns of a row of the rectangle in BFloat16.
  void decode_row(std::uint64_t row, std::byte* out);

 private:
  struct Bytes {
    std::vector<std::byte> bytes;
    std::uint64_t stride = 0;
  };

  Bytes load(const StoredTensor& tensor, const StoredRows& rows) const;
  void load_scales();
  void load_offsets();

  const QuantizedWeight& weight_;
  WeightRectangle wanted_;
  bool foreseen_;
  bool has_one_scale_;
  const Decoder& decoder_;
  std::uint64_t first_code_;  ///< of a row, in the bytes that are loaded
  Bytes codes_;
  std::uint64_t scale_row_ = 0;      ///< the first one
  std::uint64_t scale_column_ = 0;   ///< the first one
  std::uint64_t scale_rows_ = 0;     ///< of the rectangle
  std::uint64_t scale_columns_ = 0;  ///< likewise
  std::vector<float> scales_;
  std::vector<int> offsets_;             ///< one for each scale
  std::vector<std::uint16_t> unpacked_;  ///< of a row
  ScaledCodes row_;                      ///< those, with the scales of the row
};

}  // namespace reshardfs
