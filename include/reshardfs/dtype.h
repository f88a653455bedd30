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
  kInt4,  ///< stored as one int8 an element
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
  kFloat8E5M2,  ///< safetensors only, like the next one
  kFloat8E4M3,
  kString,  ///< UTF-32 little endian text; not an array: carried as opaque bytes
  kMap,     ///< a serialized MapTensorProto (keys, values, status): carried as opaque bytes
  // In safetensors only, and copied as they are: there are no casts from or to these.
  kFloat8E8M0,
  kFloat8E4M3FNUZ,
  kFloat8E5M2FNUZ,
  kFloat4E2M1,  ///< packed, like the next two: elements share bytes
  kFloat6E2M3,
  kFloat6E3M2,
  kComplex64,  ///< two Float32
};

/// False for text and maps, which are opaque bytes.
RESHARDFS_EXPORT bool is_array(DType dtype) noexcept;

/// Bytes of one unit. A unit is one element, or for a packed type the smallest group of elements
/// that fills whole bytes. 1 for types that are not arrays, whose content is counted in bytes.
RESHARDFS_EXPORT std::int64_t element_size(DType dtype) noexcept;

/// 1 except for packed types: 2 for Float4 (one byte), 4 for Float6 (three bytes).
RESHARDFS_EXPORT std::int64_t elements_per_unit(DType dtype) noexcept;

/// Whether elements share bytes.
RESHARDFS_EXPORT bool is_packed(DType dtype) noexcept;

/// The `tensor_type` text of a .ckpt record: "Float32", "BFloat16", "str", ... Types that .ckpt
/// files cannot store have names too, for messages.
RESHARDFS_EXPORT std::string_view mindspore_name(DType dtype) noexcept;

/// The inverse of mindspore_name(); nullopt for names that MindSpore cannot load either.
RESHARDFS_EXPORT std::optional<DType> dtype_from_mindspore(std::string_view name) noexcept;

/// The `dtype` text of a safetensors header: "F32", "BF16", "F8_E4M3", ... Int4 is "I8", the type
/// it is stored as. Empty for types that are not arrays.
RESHARDFS_EXPORT std::string_view safetensors_name(DType dtype) noexcept;

/// The inverse of safetensors_name(); nullopt if reshardfs does not know the type.
RESHARDFS_EXPORT std::optional<DType> dtype_from_safetensors(std::string_view name) noexcept;

/// The `descr` text of a .npy header: "<f4", "|b1", ... NumPy lacks bfloat16 and 8-bit floating
/// types; they are raw bytes of that width, "<V2" and "|V1". Empty for packed types and types that
/// are not arrays.
RESHARDFS_EXPORT std::string_view numpy_descr(DType dtype) noexcept;

}  // namespace reshardfs
