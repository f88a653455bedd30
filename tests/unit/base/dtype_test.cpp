// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/dtype.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/content_size.h"
#include "support/errors.h"

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
          {DType::kFloat8E4M3, 1, "Float8E4M3FN", "F8_E4M3", "|V1"},
          {DType::kFloat8E8M0, 1, "Float8E8M0", "F8_E8M0", "|V1"},
          {DType::kFloat8E4M3FNUZ, 1, "Float8E4M3FNUZ", "F8_E4M3FNUZ", "|V1"},
          {DType::kFloat8E5M2FNUZ, 1, "Float8E5M2FNUZ", "F8_E5M2FNUZ", "|V1"},
          {DType::kFloat4E2M1, 1, "Float4E2M1", "F4", ""},
          {DType::kFloat6E2M3, 3, "Float6E2M3", "F6_E2M3", ""},
          {DType::kFloat6E3M2, 3, "Float6E3M2", "F6_E3M2", ""},
          {DType::kComplex64, 8, "Complex64", "C64", "<c8"}};
}

/// Types that a .ckpt file cannot have come behind kFloat64.
bool is_in_ckpt(DType dtype) {
  return dtype <= DType::kFloat64;
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
  for (const std::string name : {"", "f32", "F32 ", "F8_E9M0", "F5", "C128", "Float32"}) {
    EXPECT_EQ(dtype_from_safetensors(name), std::nullopt) << name;
  }
}

TEST(DType, IsFoundByItsNameInMindSporeIfThatCouldLoadIt) {
  for (const Row& row : arrays()) {
    const auto expected = is_in_ckpt(row.dtype) ? std::optional(row.dtype) : std::nullopt;
    EXPECT_EQ(dtype_from_mindspore(row.mindspore), expected) << row.mindspore;
  }
  EXPECT_EQ(dtype_from_mindspore("str"), DType::kString);
  for (const std::string name : {"", "float32", "Complex64", "maptensor"}) {
    EXPECT_EQ(dtype_from_mindspore(name), std::nullopt) << name;
  }
}

TEST(DType, OfPackedOnesElementsFillBytesTogether) {
  for (const Row& row : arrays()) {
    const bool four = row.safetensors == "F4";
    const bool six = row.safetensors.starts_with("F6_");
    EXPECT_EQ(elements_per_unit(row.dtype), six ? 4 : four ? 2 : 1) << row.mindspore;
    EXPECT_EQ(is_packed(row.dtype), four || six) << row.mindspore;
  }
  EXPECT_EQ(content_size({4, 6}, DType::kFloat4E2M1, "size"), 12);
  EXPECT_EQ(content_size({4, 6}, DType::kFloat6E3M2, "size"), 18);
  EXPECT_EQ(content_size({4, 6}, DType::kComplex64, "size"), 192);
  EXPECT_EQ(bytes_to_hold({3}, DType::kFloat4E2M1), 2U);
  test::expect_error(ErrorKind::kBadInput, {"6 elements of Float6E2M3", "multiple of 4"}, [] {
    content_size({2, 3}, DType::kFloat6E2M3, "size");
  });
  test::expect_error(ErrorKind::kBadInput, {"size exceeds"},
                     [] { content_size({1LL << 61}, DType::kComplex64, "size"); });
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
