// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/dtype.h"

#include <array>

namespace reshardfs {
namespace {

struct Row {
  DType dtype;
  std::int64_t size;  ///< bytes of a unit
  std::string_view mindspore;
  std::string_view safetensors;
  std::string_view numpy;
  bool in_ckpt = true;
  std::int64_t per_unit = 1;
};

// In the order of the enumeration, so that a lookup by type is an index.
constexpr std::array<Row, 25> kTable{{
    {DType::kBool, 1, "Bool", "BOOL", "|b1"},
    {DType::kInt4, 1, "Int4", "I8", "|i1"},
    {DType::kInt8, 1, "Int8", "I8", "|i1"},
    {DType::kUInt8, 1, "UInt8", "U8", "|u1"},
    {DType::kInt16, 2, "Int16", "I16", "<i2"},
    {DType::kUInt16, 2, "UInt16", "U16", "<u2"},
    {DType::kInt32, 4, "Int32", "I32", "<i4"},
    {DType::kUInt32, 4, "UInt32", "U32", "<u4"},
    {DType::kInt64, 8, "Int64", "I64", "<i8"},
    {DType::kUInt64, 8, "UInt64", "U64", "<u8"},
    {DType::kFloat16, 2, "Float16", "F16", "<f2"},
    {DType::kBFloat16, 2, "BFloat16", "BF16", "<V2"},
    {DType::kFloat32, 4, "Float32", "F32", "<f4"},
    {DType::kFloat64, 8, "Float64", "F64", "<f8"},
    {DType::kFloat8E5M2, 1, "Float8E5M2", "F8_E5M2", "|V1", false},
    {DType::kFloat8E4M3, 1, "Float8E4M3FN", "F8_E4M3", "|V1", false},
    {DType::kString, 1, "str", "", ""},
    {DType::kMap, 1, "maptensor", "", "", false},
    {DType::kFloat8E8M0, 1, "Float8E8M0", "F8_E8M0", "|V1", false},
    {DType::kFloat8E4M3FNUZ, 1, "Float8E4M3FNUZ", "F8_E4M3FNUZ", "|V1", false},
    {DType::kFloat8E5M2FNUZ, 1, "Float8E5M2FNUZ", "F8_E5M2FNUZ", "|V1", false},
    {DType::kFloat4E2M1, 1, "Float4E2M1", "F4", "", false, 2},
    {DType::kFloat6E2M3, 3, "Float6E2M3", "F6_E2M3", "", false, 4},
    {DType::kFloat6E3M2, 3, "Float6E3M2", "F6_E3M2", "", false, 4},
    {DType::kComplex64, 8, "Complex64", "C64", "<c8", false},
}};

constexpr bool table_is_in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable.at(i).dtype) != i) return false;
  }
  return true;
}
static_assert(table_is_in_order());

const Row& row(DType dtype) noexcept {
  return kTable[static_cast<std::size_t>(dtype)];
}

}  // namespace

bool is_array(DType dtype) noexcept {
  return dtype != DType::kString && dtype != DType::kMap;
}

std::int64_t element_size(DType dtype) noexcept {
  return row(dtype).size;
}

std::int64_t elements_per_unit(DType dtype) noexcept {
  return row(dtype).per_unit;
}

bool is_packed(DType dtype) noexcept {
  return row(dtype).per_unit > 1;
}

std::string_view mindspore_name(DType dtype) noexcept {
  return row(dtype).mindspore;
}

std::optional<DType> dtype_from_mindspore(std::string_view name) noexcept {
  for (const Row& candidate : kTable) {
    if (candidate.in_ckpt && candidate.mindspore == name) return candidate.dtype;
  }
  return std::nullopt;
}

std::string_view safetensors_name(DType dtype) noexcept {
  return row(dtype).safetensors;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) noexcept {
  for (const Row& candidate : kTable) {
    const bool stands_for_itself = candidate.dtype != DType::kInt4 && is_array(candidate.dtype);
    if (stands_for_itself && candidate.safetensors == name) return candidate.dtype;
  }
  return std::nullopt;
}

std::string_view numpy_descr(DType dtype) noexcept {
  return row(dtype).numpy;
}

}  // namespace reshardfs
