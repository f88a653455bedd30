// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/dtype.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

struct Row {
  DType dtype;
  std::int64_t size;
  std::string mindspore;
  std::string safetensors;
  std::string numpy;
};

std::vector<Row> arrays() {
  return {{DType::kBool, 1, "Bool", "BOOL", "|b1"},
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
          {DType::kFloat8E5M2, 1, "Float8E5M2", "F8_E5M2", "|V1"},
          {DType::kFloat8E4M3, 1, "Float8E4M3FN", "F8_E4M3", "|V1"}};
}

bool is_float8(DType dtype) {
  return dtype == DType::kFloat8E5M2 || dtype == DType::kFloat8E4M3;
}

TEST(DType, HasASizeAndANameInEachFormat) {
  for (const Row& row : arrays()) {
    SCOPED_TRACE(row.mindspore);
    EXPECT_TRUE(is_array(row.dtype));
    EXPECT_EQ(element_size(row.dtype), row.size);
    EXPECT_EQ(mindspore_name(row.dtype), row.mindspore);
    EXPECT_EQ(safetensors_name(row.dtype), row.safetensors);
    EXPECT_EQ(numpy_descr(row.dtype), row.numpy);
  }
}

TEST(DType, IsFoundByItsNameInSafetensors) {
  for (const Row& row : arrays()) {
    // Int4 cannot be told from Int8 by the name.
    const DType expected = row.dtype == DType::kInt4 ? DType::kInt8 : row.dtype;
    EXPECT_EQ(dtype_from_safetensors(row.safetensors), expected);
  }
  for (const std::string name : {"", "f32", "F32 ", "F8_E8M0", "F4", "C64", "Float32"}) {
    EXPECT_EQ(dtype_from_safetensors(name), std::nullopt) << name;
  }
}

TEST(DType, IsFoundByItsNameInMindSporeIfThatCouldLoadIt) {
  for (const Row& row : arrays()) {
    const auto expected = is_float8(row.dtype) ? std::nullopt : std::optional(row.dtype);
    EXPECT_EQ(dtype_from_mindspore(row.mindspore), expected) << row.mindspore;
  }
  EXPECT_EQ(dtype_from_mindspore("str"), DType::kString);
  for (const std::string name : {"", "float32", "Complex64", "maptensor"}) {
    EXPECT_EQ(dtype_from_mindspore(name), std::nullopt) << name;
  }
}

TEST(DType, TextAndMapsAreNoArraysAndHaveNoNamesElsewhere) {
  for (const DType dtype : {DType::kString, DType::kMap}) {
    EXPECT_FALSE(is_array(dtype));
    EXPECT_EQ(element_size(dtype), 1);
    EXPECT_EQ(safetensors_name(dtype), "");
    EXPECT_EQ(numpy_descr(dtype), "");
  }
}

}  // namespace
}  // namespace reshardfs
