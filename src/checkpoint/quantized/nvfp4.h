// SPDX-License-Identifier: Apache-2.0
/// MXFP4 as NVFP4, without loss: the codes stay, and each scale, a power of two, becomes one of
/// Float8E4M3 for each half of its block and one power of two for all of a weight.
/// https://github.com/NVIDIA/Model-Optimizer
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/quantized/quantized_weight.h"
#include "checkpoint/ranks/rank_file.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Scales of a weight in MXFP4, as NVFP4 has them.
class NvScales {
 public:
  /// @pre the weight is in MXFP4
  explicit NvScales(QuantizedWeight weight);

  /// Weights that runtimes put together share their largest scale.
  void share_with(const NvScales& other) { others_.push_back(other.weight_); }

  void check_unchanged() const;
  std::uint64_t matrices() const;
  std::uint64_t rows() const;
  std::uint64_t columns() const;  ///< of scales in MXFP4

  /// The exponent of the largest scale of a matrix, in this weight or one that shares it.
  /// @throws Error of reading
  int largest(std::uint64_t matrix) const;
  /// Some bytes of the result: two for each scale.
  /// @throws Error kUnsupported if codes of a block lose bits; of reading
  std::vector<std::byte> scales(std::uint64_t matrix, std::uint64_t row, std::uint64_t rows) const;

 private:
  bool is_zero(std::uint64_t matrix, std::uint64_t row, std::uint64_t block) const;

  QuantizedWeight weight_;
  std::vector<QuantizedWeight> others_;
  mutable std::vector<std::atomic<int>> largest_;  ///< of each matrix, as stored; 0: not known
};

/// Shows weights in MXFP4 as modelopt's W4A16_NVFP4: weight, weight_scale and weight_scale_2.
/// @param files, has_layouts, config, tree as for dequantize().
/// @throws Error as dequantize(); kUnsupported with the names of weights in other forms.
void quantize_to_nvfp4(std::vector<RankFile>& files, bool has_layouts,
                       const std::filesystem::path& config, const SourceTreePtr& tree);

}  // namespace reshardfs
