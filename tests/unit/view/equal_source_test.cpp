// SPDX-License-Identifier: Apache-2.0
/// Which files of a view are known to equal a source file. Whatever is called equal is also read
/// and compared.
#include <gtest/gtest.h>

#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "support/wire.h"
#include "view/files/ckpt_file.h"
#include "view/files/safetensors_file.h"

namespace reshardfs {
namespace {

using test::counting_bytes;
using test::memory_set;
using test::record;

const Layout kRows{.device_matrix = {2}, .tensor_map = {{0}, {}}};
const Layout kEverywhere{.device_matrix = {2}, .tensor_map = {{}, {}}};

using SetPtr = std::shared_ptr<const CheckpointSet>;
using TargetPtr = std::shared_ptr<const TargetTable>;

std::optional<Strategy> strategy(const Layout& layout) {
  return Strategy({{{"w", layout}}}, 0, false);
}

TargetPtr target(SetPtr set, const std::optional<Strategy>& source = std::nullopt,
                 const std::optional<Strategy>& destination = std::nullopt,
                 const TargetOptions& options = {}) {
  auto table = std::make_shared<const SourceTable>(std::move(set), source);
  return std::make_shared<const TargetTable>(std::move(table), destination, options);
}

/// Of a file or a source.
template <typename Bytes>
std::string all_of(const Bytes& bytes) {
  std::vector<std::byte> out(bytes.size());
  bytes.read_at(0, out);
  return test::text_of(out);
}

std::string all_of(const FileImage& image) {
  std::vector<std::byte> out(image.size());
  read_checked([&](ReadBatch& batch) { image.read(0, out, batch); });
  return test::text_of(out);
}

std::string crc_trailer(const std::string& records) {
  ckpt::CrcSum sum;
  sum.add(std::as_bytes(std::span(records)));
  return ckpt::trailer(sum.value());
}

/// The rank whose file it is; -1: it equals none.
template <typename File>
std::int64_t equal_rank(const File& file, const CheckpointSet& set) {
  const ByteSourcePtr source = file.equal_source();
  if (!source) return -1;
  EXPECT_EQ(all_of(file), all_of(*source));
  for (const RankFile& rank : set.files()) {
    if (rank.source == source) return rank.rank.number();
  }
  ADD_FAILURE() << "an unknown source";
  return -1;
}

const std::string kPlain = record("w", {2, 3}, "Float32", counting_bytes(24)) +
                           record("s", {}, "Float64", counting_bytes(8)) +
                           record("text", {0}, "str", std::string("a\0\0\0", 4));

TEST(EqualSource, IsTheFileItselfWhenNothingChanges) {
  const SetPtr set = memory_set({{0, kPlain}});
  EXPECT_EQ(equal_rank(CkptFile(target(set), Rank(0)), *set), 0);
}

TEST(EqualSource, IsEachRanksOwnFileInTheSameLayout) {
  const SetPtr set = memory_set(
      {{0, record("w", {1, 3}, "Int8", "abc")}, {1, record("w", {1, 3}, "Int8", "def")}});
  const TargetPtr same = target(set, strategy(kRows), strategy(kRows));
  EXPECT_EQ(equal_rank(CkptFile(same, Rank(0)), *set), 0);
  EXPECT_EQ(equal_rank(CkptFile(same, Rank(1)), *set), 1);
}

TEST(EqualSource, IsTheFileThatIsReadOfThoseThatHoldTheSame) {
  const std::string bytes = record("w", {1, 3}, "Int8", "abc");
  const SetPtr set = memory_set({{0, bytes}, {1, bytes}});
  const TargetPtr same = target(set, strategy(kEverywhere), strategy(kEverywhere));
  EXPECT_EQ(equal_rank(CkptFile(same, Rank(1)), *set), 0);
}

TEST(EqualSource, IsNoneOfSeveralFiles) {
  const SetPtr set = memory_set(
      {{0, record("w", {1, 3}, "Int8", "abc")}, {1, record("w", {1, 3}, "Int8", "def")}});
  EXPECT_EQ(equal_rank(CkptFile(target(set, strategy(kRows)), Rank(0)), *set), -1);
  // Two files side by side, of which the first one has the place and the size of the whole.
  const SetPtr parts =
      test::segmented_set({{0, {record("a", {1}, "Int8", "a"), record("b", {1}, "Int8", "b")}}});
  EXPECT_EQ(equal_rank(CkptFile(target(parts), Rank(0)), *parts), -1);
}

TEST(EqualSource, IsNoneIfAReplicaIsReadFromAnotherFile) {
  // Rank 1's own w, which should be rank 0's, is not.
  const SetPtr set =
      memory_set({{0, record("w", {1}, "Int8", "w") + record("v", {1, 1}, "Int8", "a")},
                  {1, record("w", {1}, "Int8", "x") + record("v", {1, 1}, "Int8", "b")}});
  const Layout everywhere{.device_matrix = {2}, .tensor_map = {{}}};
  const Strategy same({{{"w", everywhere}, {"v", kRows}}}, 0, false);
  const TargetPtr table = target(set, same, same);
  EXPECT_EQ(equal_rank(CkptFile(table, Rank(0)), *set), 0);
  EXPECT_EQ(equal_rank(CkptFile(table, Rank(1)), *set), -1);
}

TEST(EqualSource, IsNotAFileWithTheSamePartsAtOtherPlaces) {
  const SetPtr set =
      memory_set({{0, record("a", {2}, "Int8", "aa") + record("b", {2}, "Int8", "bb")}});
  const RankFile& file = set->files().front();
  const auto image_of = [&](std::size_t first, std::size_t second) {
    FileImage image;
    const auto append = [&](const char* name, std::size_t entry) {
      image.append_literal(ckpt::record_header(name, DType::kInt8, {2}, 2));
      image.append(
          {ShownTensor(single_cell_grid({&file, &file.index->entries()[entry]})), DType::kInt8});
    };
    append("a", first);
    append("b", second);
    return image;
  };
  EXPECT_EQ(equal_rank(image_of(0, 1), *set), 0);
  EXPECT_EQ(equal_rank(image_of(1, 0), *set), -1);
}

TEST(EqualSource, IsNotAFileOfWhichAPartIsShown) {
  const SetPtr set = memory_set({{0, kPlain}});
  const TargetPtr half = target(set, std::nullopt, strategy(kRows));
  EXPECT_EQ(equal_rank(CkptFile(half, Rank(0)), *set), -1);
  TargetOptions no_text;
  no_text.names.exclude = {"text"};
  const TargetPtr fewer = target(set, std::nullopt, std::nullopt, no_text);
  EXPECT_EQ(equal_rank(CkptFile(fewer, Rank(0)), *set), -1);
}

TEST(EqualSource, IsNotAFileWithOtherTypes) {
  const SetPtr set = memory_set({{0, record("w", {2}, "Float32", counting_bytes(8))}});
  TargetOptions options;
  options.casts = Casts({"fp32->bf16"});
  const TargetPtr cast = target(set, std::nullopt, std::nullopt, options);
  EXPECT_EQ(equal_rank(CkptFile(cast, Rank(0)), *set), -1);
}

TEST(EqualSource, IsNotAFileOfOldBFloat16) {
  const std::string stored(4, '\0');
  const SetPtr set = memory_set({{0, record("w", {1}, "BFloat16", stored)}});
  EXPECT_EQ(equal_rank(CkptFile(target(set), Rank(0)), *set), -1);
}

TEST(EqualSource, IsNotAFileWithACrc) {
  const SetPtr plain = memory_set({{0, kPlain}});
  EXPECT_EQ(equal_rank(CkptFile(target(plain), Rank(0), true), *plain), -1);
  const SetPtr with_crc = memory_set({{0, kPlain + crc_trailer(kPlain)}});
  EXPECT_EQ(equal_rank(CkptFile(target(with_crc), Rank(0)), *with_crc), -1);
}

TEST(EqualSource, IsNotAFileWithOtherHeaders) {
  // The same parameters at the same places in a file of the same size; only a name differs.
  const SetPtr set = memory_set({{0, kPlain}});
  const test::TempDir directory;
  const auto map = directory.write("names.json", R"({"w": "v"})");
  TargetOptions options;
  options.name_map = NameMap::load(map);
  const TargetPtr renamed = target(set, std::nullopt, std::nullopt, options);
  const CkptFile file(renamed, Rank(0));
  EXPECT_EQ(file.size(), kPlain.size());
  EXPECT_EQ(equal_rank(file, *set), -1);
}

TEST(EqualSource, IsNotAFileWithOtherRecords) {
  // Another writer's order of fields.
  const std::string other = test::bytes(
      1, test::bytes(2, test::bytes(2, "Int8") + test::dims({3}) + test::bytes(3, "abc")) +
             test::bytes(1, "w"));
  const SetPtr set = memory_set({{0, other}});
  const CkptFile file(target(set), Rank(0));
  EXPECT_EQ(file.size(), other.size());
  EXPECT_EQ(equal_rank(file, *set), -1);
}

TEST(EqualSource, IsNotAFileOfAnotherFormat) {
  const SetPtr set = memory_set({{0, record("w", {3}, "Int8", "abc")}});
  const TargetPtr table = target(set);
  const auto common = std::make_shared<const SafetensorsFile::Common>();
  EXPECT_EQ(equal_rank(SafetensorsFile(table, Rank(0), arrays_of(*table, Rank(0)), common), *set),
            -1);
}

TEST(EqualSource, ReadsHeadersAlone) {
  const auto counting = std::make_shared<test::CountingSource>(
      std::make_shared<test::MemorySource>(record("w", {100000}, "Int8", counting_bytes(100000))));
  RankFile rank = test::rank_file(0, counting);
  const CkptFile file(
      target(std::make_shared<const CheckpointSet>(std::vector<RankFile>{std::move(rank)})),
      Rank(0));
  const std::uint64_t before = counting->bytes();
  EXPECT_EQ(file.equal_source(), counting);
  const std::uint64_t compared = counting->bytes() - before;
  EXPECT_EQ(compared, file.size() - 100000);
  file.equal_source();
  EXPECT_EQ(counting->bytes() - before, compared);  // once is enough
}

TEST(EqualSource, IsNotFoundInASourceThatHasChanged) {
  const auto inner = std::make_shared<test::MemorySource>(kPlain);
  RankFile rank = test::rank_file(0, inner);
  rank.source = std::make_shared<test::ChangingSource>(inner, 0);
  const CkptFile file(
      target(std::make_shared<const CheckpointSet>(std::vector<RankFile>{std::move(rank)})),
      Rank(0));
  test::expect_error(ErrorKind::kChanged, {"memory.ckpt"}, [&] { file.equal_source(); });
}

}  // namespace
}  // namespace reshardfs
