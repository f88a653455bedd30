// SPDX-License-Identifier: Apache-2.0
/// Element types, and their names in MindSpore's checkpoints and in NumPy.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "reshardfs/export.h"

namespace reshardfs {

enum class DType : std::uint8_t {
  kBool,  ///< one byte an element
  kInt4,  ///< held as one int8 an element
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kString,  ///< UTF-32 little endian text; not an array: carried as opaque bytes
};

/// Bytes of one element; 1 for kString, whose content is counted in bytes.
RESHARDFS_EXPORT std::int64_t element_size(DType dtype) noexcept;

/// The `tensor_type` text of a .ckpt record: "Float32", "BFloat16", "str", ...
RESHARDFS_EXPORT std::string_view mindspore_name(DType dtype) noexcept;

/// The inverse of mindspore_name(), or nothing if MindSpore could not load such a record either.
RESHARDFS_EXPORT std::optional<DType> dtype_from_mindspore(std::string_view name) noexcept;

}  // namespace reshardfs
