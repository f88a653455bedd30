// SPDX-License-Identifier: Apache-2.0
/// Element types, and their names in MindSpore's checkpoints, in safetensors and in NumPy.
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
  kFloat8E5M2,  ///< safetensors only, as the next
  kFloat8E4M3,
  kString,  ///< UTF-32 little endian text; not an array: carried as opaque bytes
  kMap,     ///< a serialized MapTensorProto (keys, values, status): carried as opaque bytes
  // Of safetensors only, and carried as they are: nothing is converted from or to these.
  kFloat8E8M0,
  kFloat8E4M3FNUZ,
  kFloat8E5M2FNUZ,
  kFloat4E2M1,  ///< packed, as the next two: elements share bytes
  kFloat6E2M3,
  kFloat6E3M2,
  kComplex64,  ///< two Float32
};

/// Whether it is an array of elements; text and maps are opaque bytes.
RESHARDFS_EXPORT bool is_array(DType dtype) noexcept;

/// Bytes of one unit: of one element, or of a packed type the smallest group of elements that fills
/// whole bytes. 1 for what is no array, whose content is counted in bytes.
RESHARDFS_EXPORT std::int64_t element_size(DType dtype) noexcept;

/// 1, but for packed types: two elements of Float4 fill a byte, four of Float6 fill three.
RESHARDFS_EXPORT std::int64_t elements_per_unit(DType dtype) noexcept;

/// Whether elements share bytes.
RESHARDFS_EXPORT bool is_packed(DType dtype) noexcept;

/// The `tensor_type` text of a .ckpt record: "Float32", "BFloat16", "str", ... For messages, types
/// of which .ckpt has no records have names too.
RESHARDFS_EXPORT std::string_view mindspore_name(DType dtype) noexcept;

/// The inverse of mindspore_name(), or nothing if MindSpore could not load such a record either.
RESHARDFS_EXPORT std::optional<DType> dtype_from_mindspore(std::string_view name) noexcept;

/// The `dtype` text of a safetensors header: "F32", "BF16", "F8_E4M3", ... Int4 is "I8", as which
/// it is held; empty for what is no array.
RESHARDFS_EXPORT std::string_view safetensors_name(DType dtype) noexcept;

/// The inverse of safetensors_name(), or nothing if reshardfs does not know the type.
RESHARDFS_EXPORT std::optional<DType> dtype_from_safetensors(std::string_view name) noexcept;

/// The `descr` text of a .npy header: "<f4", "|b1", ... NumPy has no bfloat16 and no 8-bit floating
/// types: "<V2" and "|V1", bytes of that width. Empty for what is no array, and for packed types.
RESHARDFS_EXPORT std::string_view numpy_descr(DType dtype) noexcept;

}  // namespace reshardfs
