// SPDX-License-Identifier: Apache-2.0
#include "format/npy.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs::npy {
namespace {

/// What NumPy 1.24 writes for this dictionary in 128 bytes.
std::string numpy_header(const std::string& dictionary) {
  const std::string begin("\x93NUMPY\x01\x00v\x00", 10);
  return begin + dictionary + std::string(117 - dictionary.size(), ' ') + '\n';
}

TEST(Npy, WritesTheHeadersThatNumPyWrites) {
  const auto expect = [](DType dtype, const Shape& shape, const std::string& descr,
                         const std::string& tuple) {
    EXPECT_EQ(header(dtype, shape),
              numpy_header("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + tuple +
                           ", }"));
  };
  expect(DType::kFloat32, {2, 3}, "<f4", "(2, 3)");
  expect(DType::kFloat32, {}, "<f4", "()");
  expect(DType::kFloat32, {3}, "<f4", "(3,)");
  expect(DType::kBool, {0, 5}, "|b1", "(0, 5)");
  expect(DType::kInt64, {1234567890123}, "<i8", "(1234567890123,)");
  expect(DType::kBFloat16, {4, 16}, "<V2", "(4, 16)");
  expect(DType::kFloat8E4M3, {2}, "|V1", "(2,)");
  expect(DType::kInt4, {2}, "|i1", "(2,)");
  expect(DType::kUInt8, {1, 1, 1, 1, 1, 1, 1, 1}, "|u1", "(1, 1, 1, 1, 1, 1, 1, 1)");
}

TEST(Npy, PadsAsNumPyDoesWhereTheTextGrowsBeyondABlock) {
  // NumPy leaves 21 characters for the first dimension and adds 1 to 64 spaces: lengths seen there.
  const std::vector<std::pair<std::size_t, std::size_t>> lengths{{11, 128}, {12, 192}, {27, 192},
                                                                 {28, 256}, {43, 256}, {44, 320}};
  for (const auto& [dims, bytes] : lengths) {
    EXPECT_EQ(header(DType::kFloat32, Shape(dims, 10)).size(), bytes) << dims << " dimensions";
  }
}

TEST(Npy, AddsAWholeBlockWhereTheTextFillsOne) {
  Shape shape(11, 10);
  EXPECT_EQ(header(DType::kFloat32, shape).size(), 128U) << "one space is left";
  shape.back() = 100;
  EXPECT_EQ(header(DType::kFloat32, shape).size(), 192U) << "none is left";
}

TEST(Npy, ChangesToVersion2WhereNumPyDoes) {
  const std::string last_of_1 = header(DType::kFloat32, Shape(16363, 10));
  EXPECT_EQ(last_of_1.size(), 65536U);
  EXPECT_EQ(last_of_1.substr(6, 4), std::string("\x01\x00\xf6\xff", 4));
  const std::string first_of_2 = header(DType::kFloat32, Shape(16364, 10));
  EXPECT_EQ(first_of_2.size(), 65600U);
  EXPECT_EQ(first_of_2.substr(6, 6), std::string("\x02\x00\x34\x00\x01\x00", 6));
}

TEST(Npy, RefusesWhatIsNoArray) {
  test::expect_error(ErrorKind::kInternal, {"npy"}, [] { header(DType::kString, {}); });
  test::expect_error(ErrorKind::kInternal, {"npy"}, [] { header(DType::kMap, {}); });
}

}  // namespace
}  // namespace reshardfs::npy
