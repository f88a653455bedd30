// SPDX-License-Identifier: Apache-2.0
/// What is written is read again as it was meant, also by torch
/// (tests/integration/test_dcp_torch.py).
#include "format/torch/pickle_writer.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "format/torch/pickle_globals.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;

PickleTree tree_of(PickleWriter writer) {
  return PickleTree(std::move(writer).finish(), pickle::kTableRules);
}

TEST(PickleWriter, WritesIntegersOfAnyWidth) {
  constexpr std::array<std::int64_t, 15> kNumbers{0,
                                                  1,
                                                  255,
                                                  256,
                                                  65535,
                                                  65536,
                                                  -1,
                                                  -255,
                                                  std::numeric_limits<std::int32_t>::max(),
                                                  std::numeric_limits<std::int32_t>::min(),
                                                  std::int64_t{1} << 31U,
                                                  -(std::int64_t{1} << 31U) - 1,
                                                  std::int64_t{1} << 61U,
                                                  std::numeric_limits<std::int64_t>::max(),
                                                  std::numeric_limits<std::int64_t>::min()};
  PickleWriter writer;
  writer.mark();
  for (const std::int64_t number : kNumbers) writer.integer(number);
  writer.tuple();
  const PickleTree tree = tree_of(std::move(writer));
  const auto values = tree.tuple(tree.root());
  ASSERT_EQ(values.size(), kNumbers.size());
  for (std::size_t i = 0; i < kNumbers.size(); ++i) {
    EXPECT_EQ(tree.integer(values[i]), kNumbers.at(i));
  }
}

TEST(PickleWriter, RefersToWhatWasThereBefore) {
  constexpr int kTexts = 300;  // more than one byte counts
  PickleWriter writer;
  writer.mark();
  for (const int round : {0, 1}) {
    for (int i = 0; i < kTexts; ++i) writer.shared_text("a text that is long " + std::to_string(i));
    writer.global({"torch", "float32"});
    static_cast<void>(round);
  }
  writer.tuple();
  const std::string bytes = PickleWriter(writer).finish();
  EXPECT_LT(bytes.size(), kTexts * 40U);
  const PickleTree tree = tree_of(std::move(writer));
  const auto values = tree.tuple(tree.root());
  ASSERT_EQ(values.size(), 2U * (kTexts + 1));
  for (std::size_t i = 0; i < kTexts; ++i) {
    EXPECT_EQ(tree.text(values[i]), "a text that is long " + std::to_string(i));
    EXPECT_EQ(values[i + kTexts + 1], values[i]);
  }
  EXPECT_EQ(tree.global(values[kTexts]), (PickleGlobal{"torch", "float32"}));
  EXPECT_EQ(tree.global(values.back()), tree.global(values[kTexts]));
}

TEST(PickleWriter, BuildsContainersAndCalls) {
  PickleWriter writer;
  writer.empty_dict();
  writer.mark();
  writer.text("list");
  writer.empty_list();
  writer.mark();
  writer.none();
  writer.boolean(true);
  writer.append_all();
  writer.text("size");
  writer.global({"torch", "Size"});
  writer.empty_tuple();
  writer.tuple_of_one();
  writer.call();
  writer.remember("0");
  writer.text("again");
  EXPECT_TRUE(writer.recall("0"));
  EXPECT_FALSE(writer.recall("1"));
  writer.set_all();
  const PickleTree tree = tree_of(std::move(writer));
  EXPECT_EQ(tree.count(tree.find(tree.root(), "list")), 2U);
  const PickleValue size = tree.find(tree.root(), "size");
  EXPECT_EQ(tree.maker(size), (PickleGlobal{"torch", "Size"}));
  EXPECT_EQ(tree.find(tree.root(), "again"), size);
}

TEST(PickleWriter, RefusesTextsThatAreNoUtf8) {
  PickleWriter writer;
  expect_error(ErrorKind::kUnsupported, {"not valid UTF-8"}, [&] { writer.text("\xff"); });
}

}  // namespace
}  // namespace reshardfs
