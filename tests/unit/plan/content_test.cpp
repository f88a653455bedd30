// SPDX-License-Identifier: Apache-2.0
#include "plan/content.h"

#include <gtest/gtest.h>

#include "plan/content_equal.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::counting_bytes;
using test::memory_set;
using test::record;

Holding first_of(const CheckpointSet& set, std::int64_t rank = 0) {
  const RankFile* file = set.find(rank);
  return {file, &file->index->entries().front()};
}

std::string read(const Holding& holding, std::uint64_t offset, std::size_t count) {
  std::vector<std::byte> out(count);
  ReadBatch batch;
  read_content(holding, offset, out, batch);
  return test::text_of(out);
}

TEST(Content, JoinsTheExtentsOfAParameterInSeveralRecords) {
  const std::string all = counting_bytes(24);
  const auto set = memory_set({{0, record("w", {6}, "Float32", all.substr(0, 10)) +
                                       record("w", {6}, "Float32", all.substr(10, 3)) +
                                       record("w", {6}, "Float32", all.substr(13))}});
  const Holding holding = first_of(*set);
  for (std::size_t offset = 0; offset <= 24; ++offset) {
    for (std::size_t count = 0; offset + count <= 24; ++count) {
      ASSERT_EQ(read(holding, offset, count), all.substr(offset, count));
    }
  }
}

TEST(Content, TakesTheUpperHalvesOfOldBFloat16AtAnyOffset) {
  const std::string stored = counting_bytes(40, 100);
  std::string halves;
  for (std::size_t i = 0; i < 10; ++i) halves += stored.substr(4 * i + 2, 2);
  const auto set = memory_set({{0, record("w", {10}, "BFloat16", stored)}});
  const Holding holding = first_of(*set);
  for (std::size_t offset = 0; offset <= 20; ++offset) {
    for (std::size_t count = 0; offset + count <= 20; ++count) {
      ASSERT_EQ(read(holding, offset, count), halves.substr(offset, count));
    }
  }
}

TEST(Content, TakesTheUpperHalvesOfMoreThanOneBlock) {
  const std::size_t elements = 3 * 4096 + 5;
  const std::string stored = counting_bytes(4 * elements);
  std::string halves;
  for (std::size_t i = 0; i < elements; ++i) halves += stored.substr(4 * i + 2, 2);
  const auto set =
      memory_set({{0, record("w", {static_cast<std::int64_t>(elements)}, "BFloat16", stored)}});
  EXPECT_EQ(read(first_of(*set), 1, 2 * elements - 2), halves.substr(1, 2 * elements - 2));
}

TEST(Content, RefusesAReadBehindTheContent) {
  const auto set = memory_set({{0, record("w", {2}, "Int8", "ab")}});
  test::expect_error(ErrorKind::kInternal, {"'w'"}, [&] { read(first_of(*set), 1, 2); });
}

TEST(Content, StandsWhereItsExtentsAre) {
  TensorEntry entry;
  entry.extents = {{10, 4}, {14, 2}, {20, 3}};  // two side by side, and one apart
  entry.content_bytes = 9;
  EXPECT_TRUE(is_stored_at(entry, 0, 6, 10));
  EXPECT_TRUE(is_stored_at(entry, 3, 2, 13));
  EXPECT_TRUE(is_stored_at(entry, 6, 3, 20));
  EXPECT_FALSE(is_stored_at(entry, 0, 6, 11));
  EXPECT_FALSE(is_stored_at(entry, 0, 9, 10));
  EXPECT_FALSE(is_stored_at(entry, 5, 2, 15));
  EXPECT_FALSE(is_stored_at(entry, 6, 4, 20));  // more than there is
  entry.encoding = ContentEncoding::kFloat32AsBFloat16;
  EXPECT_FALSE(is_stored_at(entry, 0, 6, 10));
}

TEST(ContentEqual, ComparesTypeShapeAndBytes) {
  const auto set = memory_set({{0, record("w", {2, 2}, "Int8", "abcd")},
                               {1, record("w", {2, 2}, "Int8", "abcd")},
                               {2, record("w", {2, 2}, "Int8", "abcx")},
                               {3, record("w", {4}, "Int8", "abcd")},
                               {4, record("w", {2, 2}, "UInt8", "abcd")}});
  EXPECT_TRUE(content_equal(first_of(*set, 0), first_of(*set, 1)));
  EXPECT_FALSE(content_equal(first_of(*set, 0), first_of(*set, 2)));
  EXPECT_FALSE(content_equal(first_of(*set, 0), first_of(*set, 3)));
  EXPECT_FALSE(content_equal(first_of(*set, 0), first_of(*set, 4)));
  EXPECT_TRUE(content_equal(first_of(*set, 0), first_of(*set, 2), 3));
}

TEST(ContentEqual, SeesADifferenceInTheLastByteOfManyBlocks) {
  std::string a = counting_bytes(700'000);
  std::string b = a;
  b.back() = static_cast<char>(b.back() + 1);
  const auto set =
      memory_set({{0, record("w", {700'000}, "Int8", a)}, {1, record("w", {700'000}, "Int8", b)}});
  EXPECT_FALSE(content_equal(first_of(*set, 0), first_of(*set, 1)));
}

}  // namespace
}  // namespace reshardfs
