// SPDX-License-Identifier: Apache-2.0
/// Conversion of element types: `--cast 'fp32->bf16'`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"

namespace reshardfs {

/// Whether elements can be converted: among Float16, BFloat16, Float32 and Float64, and any type
/// to itself.
bool can_cast(DType from, DType to) noexcept;

/// Converts `elements` elements; O(elements), no allocation. Rounds once, to nearest, ties to even;
/// what is too large becomes infinity. A NaN stays a NaN of the same sign, made quiet, with the
/// upper bits of its payload. Neither pointer needs to be aligned; the buffers must not overlap.
/// @pre can_cast(from, to)
void cast_elements(DType from, const std::byte* in, DType to, std::byte* out,
                   std::size_t elements) noexcept;

/// "fp16", "float16", "f16", "half" or "Float16", and the like of bf16, fp32 and fp64; capitals do
/// not matter.
std::optional<DType> dtype_from_cast_name(std::string_view name) noexcept;

/// One `--cast`.
struct CastRule {
  std::string glob;  ///< over parameter names; "*" if none was given
  DType from = DType::kFloat32;
  DType to = DType::kFloat32;
};

/// Reads "[GLOB:]FROM->TO", e.g. "fp32->bf16" or "*.weight:fp32->fp16". The glob may hold ':' and
/// "->": the last of each counts.
/// @throws Error kUsage with the text and an example.
CastRule parse_cast(const std::string& text);

/// All `--cast` of a command, in order.
class Casts {
 public:
  Casts() = default;
  /// @throws Error kUsage, as parse_cast().
  explicit Casts(const std::vector<std::string>& texts);

  bool empty() const noexcept { return rules_.empty(); }
  const std::vector<CastRule>& rules() const noexcept { return rules_; }
  /// The type in which a parameter is shown: that of the first rule that matches its name and type,
  /// or `source`. Rules do not follow upon each other.
  DType target(const std::string& parameter, DType source) const;
  /// That rule; nullptr: none matches.
  const CastRule* rule_for(const std::string& parameter, DType source) const;

 private:
  std::vector<CastRule> rules_;
};

}  // namespace reshardfs
