// SPDX-License-Identifier: Apache-2.0
#include "base/inline_vector.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/function_ref.h"

namespace reshardfs {
namespace {

std::vector<int> list(const InlineVector<int, 8>& values) {
  return {values.begin(), values.end()};
}

TEST(InlineVector, InsertsAndErases) {
  InlineVector<int, 8> values;
  EXPECT_TRUE(values.empty());
  values.push_back(3);
  values.insert(0, 1);
  values.insert(1, 2);
  values.insert(3, 4);
  EXPECT_EQ(list(values), (std::vector{1, 2, 3, 4}));
  values.erase(1);
  values.erase(2);
  EXPECT_EQ(list(values), (std::vector{1, 3}));
}

TEST(InlineVector, BeginsNewValuesWithNothing) {
  InlineVector<int, 8> values(2);
  values[0] = values[1] = 7;
  values.resize(1);
  values.resize(4);
  EXPECT_EQ(list(values), (std::vector{7, 0, 0, 0}));
}

TEST(InlineVector, CopiesItsValues) {
  InlineVector<int, 8> values(3);
  values[2] = 5;
  InlineVector<int, 8> copy = values;
  values[2] = 6;
  EXPECT_EQ(list(copy), (std::vector{0, 0, 5}));
  copy = values;
  EXPECT_EQ(list(copy), (std::vector{0, 0, 6}));
  copy = *&copy;
  EXPECT_EQ(list(copy), (std::vector{0, 0, 6}));
}

int twice(int value) {
  return 2 * value;
}

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  const auto count = [&](int by) { return calls += by; };
  const FunctionRef<int(int)> counting = count;
  EXPECT_EQ(counting(3), 3);
  EXPECT_EQ(counting(4), 7);
  const FunctionRef<int(int)> copy = counting;
  EXPECT_EQ(copy(1), 8);
  auto* const function = &twice;
  EXPECT_EQ(FunctionRef<int(int)>(function)(21), 42);
}

}  // namespace
}  // namespace reshardfs
