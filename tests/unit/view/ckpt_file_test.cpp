// SPDX-License-Identifier: Apache-2.0
#include "view/files/ckpt_file.h"

#include <unistd.h>

#include <random>

#include <gtest/gtest.h>

#include "conversion/completeness.h"
#include "format/ckpt/ckpt.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::counting_bytes;
using test::memory_set;
using test::record;

std::shared_ptr<const TargetTable> whole(std::shared_ptr<const CheckpointSet> set,
                                         std::optional<Strategy> strategy = std::nullopt) {
  auto source = std::make_shared<const SourceTable>(std::move(set), std::move(strategy));
  return std::make_shared<const TargetTable>(std::move(source), std::nullopt, TargetOptions{});
}

std::string read(const VirtualFile& file, std::uint64_t offset, std::size_t count) {
  std::vector<std::byte> out(count);
  file.read_at(offset, out);
  return test::text_of(out);
}

TEST(CkptFile, IsTheSourceWhenNothingChanges) {
  const std::string bytes = record("w", {2, 3}, "Float32", counting_bytes(24)) +
                            record("s", {}, "Float64", counting_bytes(8)) +
                            record("text", {0}, "str", std::string("a\0\0\0", 4));
  const CkptFile file(whole(memory_set({{0, bytes}})), Rank(0));
  ASSERT_EQ(file.size(), bytes.size());
  EXPECT_EQ(read(file, 0, bytes.size()), bytes);
}

TEST(CkptFile, ReadsAnyRange) {
  const std::string bytes = record("w", {2, 3}, "Float32", counting_bytes(24)) +
                            record("v", {5}, "Int16", counting_bytes(10));
  const CkptFile file(whole(memory_set({{0, bytes}})), Rank(0));
  for (std::size_t offset = 0; offset <= bytes.size(); ++offset) {
    for (std::size_t count = 0; offset + count <= bytes.size(); ++count) {
      ASSERT_EQ(read(file, offset, count), bytes.substr(offset, count));
    }
  }
  test::expect_error(ErrorKind::kBadInput, {"beyond the end of the file"},
                     [&] { read(file, bytes.size(), 1); });
  test::expect_error(ErrorKind::kBadInput, {"beyond the end of the file"},
                     [&] { read(file, ~0ULL, 2); });
}

TEST(CkptFile, WritesNoRecordForAParameterWithoutElements) {
  const std::string some = record("w", {1}, "Int8", "x");
  const CkptFile file(whole(memory_set({{0, record("none", {3, 0}, "Int8", "") + some}})), Rank(0));
  EXPECT_EQ(read(file, 0, file.size()), some);
}

/// A file that has, or says it has, one parameter of this shape.
std::shared_ptr<const CheckpointSet> set_of_one(const Shape& shape) {
  TensorEntry entry;
  entry.name = "w";
  entry.dtype = DType::kUInt8;
  entry.shape = shape;
  entry.content_bytes = static_cast<std::uint64_t>(element_count(shape));
  entry.extents = {{0, entry.content_bytes}};
  RankFile file;
  file.path = "set/rank_0/a.ckpt";
  file.source = std::make_shared<test::MemorySource>("");
  file.index = std::make_shared<const FileIndex>(std::vector{entry});
  return std::make_shared<const CheckpointSet>(std::vector{file});
}

// A file may have holes, and be as large as it likes.
TEST(CkptFile, HasItsSizeWithoutLookingAtEachRecord) {
  constexpr std::uint64_t kLimit = 512ULL << 20;
  const Shape half_a_pebibyte{1 << 20, 1 << 29};
  const std::string header = ckpt::record_header("w", DType::kUInt8, half_a_pebibyte, kLimit);
  const CkptFile file(whole(set_of_one(half_a_pebibyte)), Rank(0));
  EXPECT_EQ(file.size(), (1ULL << 20) * (header.size() + kLimit));
  for (const Shape& shape : {Shape{1 << 21, 1 << 29}, Shape{1 << 30, 1 << 30, 2}}) {
    test::expect_error(ErrorKind::kUnsupported, {"'w'", "records", "the limit is 2000000"},
                       [&] { const CkptFile more(whole(set_of_one(shape)), Rank(0)); });
  }
}

TEST(CkptFile, CutsAParameterInRecordsOf512MiB) {
  constexpr std::uint64_t kLimit = 512ULL << 20;
  constexpr std::uint64_t kContent = kLimit + 1000;
  // A sparse source: one record of zeros with a mark on each side of the cut.
  const test::TempDir directory;
  const std::string header =
      ckpt::record_header("w", DType::kUInt8, {static_cast<std::int64_t>(kContent)}, kContent);
  const auto path = directory.write("rank_0/a.ckpt", header);
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(header.size() + kContent)), 0);
  const auto set = std::make_shared<const CheckpointSet>(CheckpointSet::open(directory.path(), {}));
  const CkptFile file(whole(set), Rank(0));

  const Shape shape{static_cast<std::int64_t>(kContent)};
  const std::string first = ckpt::record_header("w", DType::kUInt8, shape, kLimit);
  const std::string second = ckpt::record_header("w", DType::kUInt8, shape, 1000);
  EXPECT_EQ(file.size(), first.size() + kLimit + second.size() + 1000);
  EXPECT_EQ(read(file, 0, first.size() + 1), first + '\0');
  EXPECT_EQ(read(file, first.size() + kLimit - 1, second.size() + 2), '\0' + second + '\0');
}

TEST(CkptFile, FailsWhenASourceHasChanged) {
  const std::string bytes = record("w", {4}, "Int8", "abcd");
  const auto inner = std::make_shared<test::MemorySource>(bytes);
  RankFile rank = test::rank_file(0, inner);
  rank.source = std::make_shared<test::ChangingSource>(inner, 2);
  const CkptFile file(
      whole(std::make_shared<const CheckpointSet>(std::vector<RankFile>{std::move(rank)})),
      Rank(0));
  EXPECT_EQ(read(file, 0, bytes.size()), bytes);
  test::expect_error(ErrorKind::kChanged, {"memory.ckpt"}, [&] { read(file, 0, bytes.size()); });
}

TEST(Completeness, NamesMissingRanksAndParameters) {
  const Layout rows{.device_matrix = {2}, .tensor_map = {{0}}};
  const auto set = memory_set({{1, record("w", {2}, "Int8", "cd")}});
  const auto target = whole(set, Strategy({{{"w", rows}}}, 0, false));
  test::expect_error(ErrorKind::kMissing, {"source rank 0 is missing", "1 parameter: w"},
                     [&] { require_complete(*target, {Rank(0)}); });
}

TEST(Completeness, TakesAReplicaForAMissingRank) {
  const Layout everywhere{.device_matrix = {2}, .tensor_map = {{}}};
  const auto set = memory_set({{1, record("w", {2}, "Int8", "cd")}});
  EXPECT_NO_THROW(
      require_complete(*whole(set, Strategy({{{"w", everywhere}}}, 0, false)), {Rank(0)}));
}

}  // namespace
}  // namespace reshardfs
