// SPDX-License-Identifier: Apache-2.0
/// Damaged files are read, or refused with an Error; nothing else may happen. Every cut and a
/// seeded set of changed bytes.
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "strategy/files/raw_strategy.h"
#include "strategy_samples.h"

namespace reshardfs::testing {
namespace {

using Reader = RawStrategy (*)(const std::string&);

std::string sample_protobuf() {
  LayoutMessages nested{{{2, 2, 2}}, {{1, 0}, {-1}}, 4, -1};
  nested.param_split_shape = {{3, 9, 1, 7}};
  return simple_file("0-model.weight", 0, 8) + layout_item("1-model.bias", {{{8}}, {{0}}}) +
         layout_item("1-nested", nested);
}

std::string sample_json() {
  return to_json(load_bytes(sample_protobuf()));
}

/// Whether the bytes are read; any exception but Error ends the test.
bool reads(Reader reader, const std::string& bytes) {
  try {
    reader(bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void change_bytes(Reader reader, const std::string& original) {
  std::mt19937 random(20260725);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = original;
    const auto changes = 1 + random() % 3;
    for (std::uint32_t i = 0; i < changes; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random() & 0xffU);
    }
    reads(reader, bytes);
  }
}

TEST(DamagedProtobuf, EveryCutIsReadOrRefused) {
  const std::string whole = sample_protobuf();
  ASSERT_TRUE(reads(read_protobuf_strategy, whole));
  int read = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    read += reads(read_protobuf_strategy, whole.substr(0, size)) ? 1 : 0;
  }
  EXPECT_EQ(read, 5);  // nothing at all, and after each of the first four fields
}

TEST(DamagedProtobuf, ChangedBytesAreReadOrRefused) {
  change_bytes(read_protobuf_strategy, sample_protobuf());
}

TEST(DamagedJson, EveryCutIsRefused) {
  const std::string whole = sample_json();
  ASSERT_TRUE(reads(read_json_strategy, whole));
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_FALSE(reads(read_json_strategy, whole.substr(0, size))) << size;
  }
}

TEST(DamagedJson, ChangedBytesAreReadOrRefused) {
  change_bytes(read_json_strategy, sample_json());
}

}  // namespace
}  // namespace reshardfs::testing
