// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/dtype.h"

#include <array>

namespace reshardfs {
namespace {

struct Row {
  DType dtype;
  std::int64_t size;
  std::string_view mindspore;
};

// In the order of the enumeration, so that a lookup by type is an index.
constexpr std::array<Row, 15> kTable{{
    {DType::kBool, 1, "Bool"},
    {DType::kInt4, 1, "Int4"},
    {DType::kInt8, 1, "Int8"},
    {DType::kUInt8, 1, "UInt8"},
    {DType::kInt16, 2, "Int16"},
    {DType::kUInt16, 2, "UInt16"},
    {DType::kInt32, 4, "Int32"},
    {DType::kUInt32, 4, "UInt32"},
    {DType::kInt64, 8, "Int64"},
    {DType::kUInt64, 8, "UInt64"},
    {DType::kFloat16, 2, "Float16"},
    {DType::kBFloat16, 2, "BFloat16"},
    {DType::kFloat32, 4, "Float32"},
    {DType::kFloat64, 8, "Float64"},
    {DType::kString, 1, "str"},
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

std::int64_t element_size(DType dtype) noexcept {
  return row(dtype).size;
}

std::string_view mindspore_name(DType dtype) noexcept {
  return row(dtype).mindspore;
}

std::optional<DType> dtype_from_mindspore(std::string_view name) noexcept {
  for (const Row& candidate : kTable) {
    if (candidate.mindspore == name) return candidate.dtype;
  }
  return std::nullopt;
}

}  // namespace reshardfs
