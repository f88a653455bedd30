// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/computed_elements.h"
#include "checkpoint/quantized/quantized_weight.h"

namespace reshardfs {

/// A quantized weight in BFloat16. Reads the codes and scales that the wanted rows and columns
/// need. Memory: about 2 MiB for each thread that reads, which it keeps.
class DequantizedContent final : public ComputedElements {
 public:
  /// @param weight whose parts have the shapes and types that its layout demands.
  /// @param file the one that it is appended to.
  DequantizedContent(QuantizedWeight weight, const ByteSourcePtr& file);

  std::uint64_t size() const override;
  void foresee(const ByteRange& range, Foresight when) const noexcept override;

 private:
  void make(std::uint64_t first, std::uint64_t count, bool foreseen, std::byte* out) const override;
  void check_unchanged() const override;

  QuantizedWeight weight_;
  std::vector<ByteSourcePtr> others_;  ///< files but the one that it is appended to
  std::uint64_t matrices_ = 1;
  std::uint64_t rows_ = 0;     ///< of a matrix, as stored
  std::uint64_t columns_ = 0;  ///< of a row, as stored
};

}  // namespace reshardfs
