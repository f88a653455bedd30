// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/appended_source.h"
#include "checkpoint/quantized/quantized_weight.h"

namespace reshardfs {

/// A quantized weight in BFloat16. Reads the codes and scales that the wanted rows and columns
/// need. Memory: about 3 MiB for each read.
class DequantizedContent final : public ComputedContent {
 public:
  /// @param weight whose parts have the shapes and types that its layout demands.
  /// @param file the one that it is appended to.
  DequantizedContent(QuantizedWeight weight, const ByteSourcePtr& file);

  std::uint64_t size() const override;
  void read(const ReadRequest& part) const override;
  void foresee(const ByteRange& range, Foresight when) const noexcept override;

 private:
  /// A rectangle of one matrix, as stored, and what its codes need.
  struct Band;
  struct Bytes;

  Bytes bytes_of(const Band& band) const;
  Bytes scale_bytes_of(const Band& band) const;
  void load_codes(Band& band) const;
  void load(Band& band) const;
  void load_zeros(Band& band) const;
  void decode_row(Band& band, std::uint64_t row, std::byte* out) const;
  void show(Band& band, std::byte* out) const;

  QuantizedWeight weight_;
  std::vector<ByteSourcePtr> others_;  ///< files but the one that it is appended to
  std::uint64_t matrices_ = 1;
  std::uint64_t rows_ = 0;     ///< of a matrix, as stored
  std::uint64_t columns_ = 0;  ///< of a row, as stored
  std::uint64_t scale_rows_ = 0;
  std::uint64_t scale_columns_ = 0;
  bool has_one_scale_ = false;
};

}  // namespace reshardfs
