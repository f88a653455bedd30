// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/content.h"

#include <optional>

#include <gtest/gtest.h>

#include "plan/replicas/replica_check.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/wire.h"

namespace reshardfs::content_tests {
namespace {

using test::counting_bytes;
using test::memory_set;
using test::record;

Holding first_of(const CheckpointSet& set, std::int64_t rank = 0) {
  const RankFile* file = set.find(Rank(rank));
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

TEST(Content, IsReadFromASourceThatMustNotChangeMeanwhile) {
  RankFile file = test::rank_file(
      0, std::make_shared<test::MemorySource>(record("w", {2}, "Int8", "ab"), "w.ckpt"));
  file.source = std::make_shared<test::ChangingSource>(file.source, 1);
  const Holding holding{&file, &file.index->entries().front()};
  std::vector<std::byte> out(2);
  ReadBatch batch;
  EXPECT_NO_THROW(batch.check());
  read_content(holding, 0, out, batch);
  test::expect_error(ErrorKind::kChanged, {"w.ckpt"}, [&] { batch.check(); });
  test::expect_error(ErrorKind::kChanged, {"w.ckpt"}, [&] { content_equal(holding, holding); });
}

/// Gathers nothing, but says what it was asked for.
class AskedSource final : public ByteSource {
 public:
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return 1000; }
  std::int64_t mtime_ns() const override { return 0; }
  void read_at(std::uint64_t /*offset*/, std::span<std::byte> /*out*/) const override {}
  bool gather(const StridedRanges& ranges, std::byte* /*out*/) const override {
    asked.emplace(ranges);
    return true;
  }
  void check_unchanged() const override { ++checks; }

  mutable std::optional<StridedRanges> asked;
  mutable int checks = 0;

 private:
  std::string name_ = "asked";
};

class Gathering : public ::testing::Test {
 protected:
  Gathering() {
    entry_.extents = {{100, 40}, {200, 40}};
    entry_.content_bytes = 80;
    file_.source = source_;
  }
  /// Three ranges of 4 bytes, 10 apart: where they are gathered in the file, or -1.
  std::int64_t gathered_at(std::uint64_t offset) {
    const StridedRanges ranges(ByteRange(offset, 4), 3, {.source = 10, .memory = 4});
    if (!gather_content({&file_, &entry_}, ranges, nullptr, batch_)) return -1;
    EXPECT_EQ(source_->asked->length(), 4U);
    EXPECT_EQ(source_->asked->count(), 3U);
    EXPECT_EQ(source_->asked->stride(), 10U);
    return static_cast<std::int64_t>(source_->asked->offset());
  }

  std::shared_ptr<AskedSource> source_ = std::make_shared<AskedSource>();
  TensorEntry entry_;
  RankFile file_;
  ReadBatch batch_;
};

TEST_F(Gathering, CountsOffsetsInTheFile) {
  EXPECT_EQ(gathered_at(0), 100);
  EXPECT_EQ(gathered_at(3), 103);
  EXPECT_EQ(gathered_at(40), 200);
  EXPECT_EQ(gathered_at(50), 210);
}

TEST_F(Gathering, IsWithinOneExtent) {
  EXPECT_EQ(gathered_at(16), 116);  // to its last byte
  EXPECT_EQ(gathered_at(17), -1);
  EXPECT_EQ(gathered_at(39), -1);
  EXPECT_EQ(gathered_at(56), 216);
  EXPECT_EQ(gathered_at(57), -1);
  EXPECT_EQ(gathered_at(80), -1);
}

TEST_F(Gathering, IsOfPlainContentAlone) {
  entry_.encoding = ContentEncoding::kFloat32AsBFloat16;
  EXPECT_EQ(gathered_at(0), -1);
}

TEST_F(Gathering, ChecksItsSourceOnce) {
  gathered_at(0);
  gathered_at(50);
  batch_.check();
  EXPECT_EQ(source_->checks, 1);
}

TEST(ReadBatch, ChecksEachSourceOnce) {
  const AskedSource a;
  const AskedSource b;
  ReadBatch batch;
  for (const AskedSource* source : {&a, &b, &b, &a, &b}) batch.use(*source);
  batch.check();
  EXPECT_EQ(a.checks, 1);
  EXPECT_EQ(b.checks, 1);
}

TEST(ReadBatch, AvoidsASourceThatHasFailed) {
  const AskedSource a;
  const AskedSource b;
  ReadBatch batch;
  EXPECT_FALSE(batch.avoid_failed());  // none was used
  batch.use(b);
  batch.use(a);
  EXPECT_FALSE(batch.avoids(a));
  EXPECT_TRUE(batch.avoid_failed());
  EXPECT_TRUE(batch.avoids(a));
  EXPECT_FALSE(batch.avoids(b));
  batch.check();  // what was read before is read again, from other sources
  EXPECT_EQ(b.checks, 0);
  batch.use(a);
  EXPECT_FALSE(batch.avoid_failed());  // a second time
}

TEST(Content, StandsWhereItsExtentsAre) {
  TensorEntry entry;
  entry.extents = {{10, 4}, {14, 2}, {20, 3}};  // two side by side, and one apart
  entry.content_bytes = 9;
  EXPECT_TRUE(is_stored_at(entry, {0, 6}, 10));
  EXPECT_TRUE(is_stored_at(entry, {3, 2}, 13));
  EXPECT_TRUE(is_stored_at(entry, {6, 3}, 20));
  EXPECT_FALSE(is_stored_at(entry, {0, 6}, 11));
  EXPECT_FALSE(is_stored_at(entry, {0, 9}, 10));
  EXPECT_FALSE(is_stored_at(entry, {5, 2}, 15));
  EXPECT_FALSE(is_stored_at(entry, {6, 4}, 20));  // more than there is
  EXPECT_TRUE(is_stored_at(entry, {4, 1}, 14));
  EXPECT_TRUE(is_stored_at(entry, {2, 0}, 99));  // no byte is anywhere
  entry.encoding = ContentEncoding::kFloat32AsBFloat16;
  EXPECT_FALSE(is_stored_at(entry, {0, 6}, 10));
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
  EXPECT_FALSE(content_equal(first_of(*set, 0), first_of(*set, 2), 4));
}

TEST(ContentEqual, ComparesTheLengthOfTexts) {
  const auto set = memory_set({{0, record("s", {0}, "str", "text")},
                               {1, record("s", {0}, "str", "textmore")},
                               {2, record("s", {0}, "str", "text")}});
  EXPECT_FALSE(content_equal(first_of(*set, 0), first_of(*set, 1)));
  EXPECT_FALSE(content_equal(first_of(*set, 1), first_of(*set, 0)));
  EXPECT_TRUE(content_equal(first_of(*set, 0), first_of(*set, 2)));
}

TEST(ContentEqual, WithoutElementsIsADecisionOfTypeAndShape) {
  const auto set = memory_set({{0, record("w", {0}, "Int8", "")},
                               {1, record("w", {0}, "Int8", "")},
                               {2, record("w", {0, 2}, "Int8", "")}});
  EXPECT_TRUE(content_equal(first_of(*set, 0), first_of(*set, 1)));
  EXPECT_FALSE(content_equal(first_of(*set, 0), first_of(*set, 2)));
}

TEST(ContentEqual, ReadsNoFurtherThanTheFirstDifference) {
  std::string other = counting_bytes(700'000);
  other[10] = 'x';
  const auto set = memory_set({{0, record("w", {700'000}, "Int8", counting_bytes(700'000))},
                               {1, record("w", {700'000}, "Int8", other)}});
  RankFile file = *set->find(Rank(0));
  const auto counting = std::make_shared<test::CountingSource>(file.source);
  file.source = counting;
  EXPECT_FALSE(content_equal({&file, &file.index->entries().front()}, first_of(*set, 1)));
  EXPECT_EQ(counting->reads(), 1U);
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
}  // namespace reshardfs::content_tests
