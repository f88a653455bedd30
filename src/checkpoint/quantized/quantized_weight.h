// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/byte_range.h"
#include "checkpoint/quantized/block_scales.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// Where a tensor is.
struct StoredTensor {
  ByteSourcePtr source{};
  ByteRange place{};
  DType dtype = DType::kFloat32;
  Shape shape{};
  std::string name{};
};

/// What a code of a weight stands for, before it is scaled.
enum class CodeKind : std::uint8_t {
  kE4M3,      ///< 8 bits; all ones is NaN
  kE2M1,      ///< 4 bits
  kE2M3,      ///< 6 bits
  kUnsigned,  ///< an integer, from which an offset and the zero point are taken
  kSigned,    ///< an int8, from which the zero point is taken
};

constexpr bool is_integer(CodeKind kind) noexcept {
  return kind == CodeKind::kUnsigned || kind == CodeKind::kSigned;
}

/// How the codes of a row lie in memory.
enum class CodePacking : std::uint8_t {
  kStream,       ///< one behind the other, the lowest bits of a byte first
  kInterleaved,  ///< eight of four bits in a word of 32, in the order of AWQ's kernels
  kWordsOfRows,  ///< a word of 32 bits has codes of as many rows, the first row in the lowest bits
};

/// Where the zero points of a weight are.
enum class ZeroPacking : std::uint8_t {
  kNone,
  kInt8,     ///< one for each scale
  kColumns,  ///< streams of codes that go down the columns of a matrix of 32-bit words
  kRows,     ///< packed as codes are, one row for each row of scales
};

/// A weight of which codes and scales are stored. A value is the float32 product of code and scale,
/// rounded once to BFloat16, to nearest, ties to even; a NaN is 0x7fc0.
///
/// Rows and columns are those of the last two dimensions as they are stored; what lies before them
/// counts matrices.
struct QuantizedWeight {
  CodeKind kind = CodeKind::kE4M3;
  unsigned bits = 8;  ///< of a code: 1 to 8
  CodePacking packing = CodePacking::kStream;
  StoredTensor codes{};
  std::uint64_t row_bytes = 0;  ///< of codes; of words with kWordsOfRows
  Shape shape{};                ///< stored: matrices, rows, columns
  bool is_transposed = false;   ///< is shown with its last two dimensions exchanged

  StoredTensor scales{};  ///< of each block; one value: of all
  BlockShape block{};     ///< what shares a scale

  ZeroPacking zero_packing = ZeroPacking::kNone;
  StoredTensor zeros{};
  int offset = 0;        ///< is taken from codes of kUnsigned
  int zero_offset = 0;   ///< is taken from stored zero points
  int zero_modulus = 0;  ///< not 0: zero points are taken modulo this

  /// Another factor, or divisor, of the scales: one value, or one for each matrix. Scale and factor
  /// are brought together first.
  std::optional<StoredTensor> factor{};
  bool divides = false;

  std::vector<StoredTensor> stated{};  ///< what describes all of it: weight_shape, g_idx

  Shape shown_shape() const;
  /// Whether all of it shares one scale, and has no zero points.
  bool has_one_scale() const;
};

}  // namespace reshardfs
