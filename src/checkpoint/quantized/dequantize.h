// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/byte_range.h"
#include "checkpoint/appended_source.h"
#include "checkpoint/quantized/block_scales.h"
#include "checkpoint/ranks/rank_file.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Where a tensor is.
struct StoredTensor {
  ByteSourcePtr source{};
  ByteRange place{};
  DType dtype = DType::kFloat32;
  Shape shape{};
};

/// BFloat16(float32(weight) * float32(scale)): one product in float32, and one rounding, to
/// nearest, ties to even. A NaN is 0x7fc0. Memory: a few hundred KiB for each read.
class DequantizedContent final : public ComputedContent {
 public:
  /// @param weight of is_block_weight(), of at least two dimensions.
  /// @param scale of is_block_scale(), with the shape that scale_shape() gives.
  /// @param beside whether the scale is in another file than the weight.
  DequantizedContent(StoredTensor weight, StoredTensor scale, BlockShape block, bool beside);

  std::uint64_t size() const override { return 2 * weight_.place.length(); }
  void read(const ReadRequest& part) const override;
  void foresee(const ByteRange& range, Foresight when) const noexcept override;

 private:
  struct Scales;

  /// Elements [begin, end) of one row.
  void convert(std::uint64_t row, std::uint64_t begin, std::uint64_t end, const std::byte* weights,
               Scales& scales, std::byte* out) const;
  /// The row of scales that counts for a row of weights.
  std::uint64_t scale_row(std::uint64_t row) const;

  StoredTensor weight_;
  StoredTensor scale_;
  BlockShape block_;
  bool beside_;
  std::uint64_t rows_;        ///< of a matrix
  std::uint64_t columns_;     ///< of a row
  std::uint64_t scale_rows_;  ///< of a matrix
  std::uint64_t scale_columns_;
};

/// Replaces weights in 8-bit floats and the scales of their blocks by weights in BFloat16, which
/// are computed when they are read. Other tensors stay as they are.
/// @param files whose indexes are read; all of rank 0, with whole tensors.
/// @param has_layouts whether the set states layouts, and so may have slices.
/// @param config the config.json that states the shape of the blocks; it need not be there.
/// @throws Error kUsage if the files are those of several ranks or parts of tensors, or nothing is
///         quantized; kUnsupported, with the names of all tensors that are not scaled by blocks;
///         kBadInput for config.json.
void dequantize(std::vector<RankFile>& files, bool has_layouts, const std::filesystem::path& config,
                const SourceTreePtr& tree);

}  // namespace reshardfs
