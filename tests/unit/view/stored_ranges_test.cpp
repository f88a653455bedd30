// SPDX-License-Identifier: Apache-2.0
/// Which bytes of a file are known to be stored unchanged in sources. Whatever is said to be is
/// also read and compared.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/wire.h"
#include "view/files/ckpt_file.h"
#include "view/files/safetensors_file.h"

namespace reshardfs::stored_ranges_tests {
namespace {

using test::counting_bytes;
using test::memory_set;
using test::record;

using TargetPtr = std::shared_ptr<const TargetTable>;

constexpr std::int64_t kHeight = 8;
constexpr std::int64_t kWidth = 6;

Strategy cut(std::int64_t ranks, bool by_rows) {
  const Layout rows{.device_matrix = {ranks}, .tensor_map = {{0}, {}}};
  const Layout columns{.device_matrix = {ranks}, .tensor_map = {{}, {0}}};
  const Layout& layout = by_rows ? rows : columns;
  return Strategy({{{"v", layout}, {"w", layout}}}, 0, false);
}

/// Two ranks that have the upper and the lower rows of two parameters.
TargetPtr target(std::int64_t to, bool by_rows, const TargetOptions& options = {}) {
  const auto half = [](const char* name, int seed) {
    return record(name, {kHeight / 2, kWidth}, "Float32",
                  counting_bytes(kHeight / 2 * kWidth * 4, static_cast<unsigned char>(seed)));
  };
  auto set = memory_set({{0, half("v", 1) + half("w", 2)}, {1, half("v", 3) + half("w", 4)}});
  auto table = std::make_shared<const SourceTable>(std::move(set), cut(2, true));
  return std::make_shared<const TargetTable>(std::move(table), cut(to, by_rows), options);
}

template <typename Bytes>
std::string text_at(const Bytes& bytes, std::uint64_t offset, std::uint64_t length) {
  std::vector<std::byte> out(static_cast<std::size_t>(length));
  bytes.read_at(offset, out);
  return test::text_of(out);
}

/// Compares each range with its source. @return how many bytes there are in all.
std::uint64_t checked_bytes(const VirtualFile& file, const std::vector<StoredRange>& ranges) {
  std::uint64_t bytes = 0;
  std::uint64_t end = 0;
  for (const StoredRange& range : ranges) {
    EXPECT_GE(range.offset, end);
    end = range.offset + range.length;
    EXPECT_LE(end, file.size());
    EXPECT_EQ(text_at(file, range.offset, range.length),
              text_at(*range.source, range.source_offset, range.length));
    bytes += range.length;
  }
  return bytes;
}

constexpr std::uint64_t kTensorBytes = kHeight * kWidth * 4;

TEST(StoredRanges, AreAllTensorsThatAreCutByRows) {
  for (const std::int64_t ranks : {1, 2, 4}) {
    const TargetPtr table = target(ranks, true);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const CkptFile file(table, Rank(rank));
      const auto ranges = file.stored_ranges(0, file.size(), 1);
      EXPECT_EQ(checked_bytes(file, ranges), 2 * kTensorBytes / static_cast<std::uint64_t>(ranks));
      // Two parameters of two sources, or of one.
      EXPECT_EQ(ranges.size(), ranks == 1 ? 4 : 2);
    }
  }
}

TEST(StoredRanges, ArePartsOfRowsOfColumns) {
  const CkptFile file(target(2, false), Rank(1));
  constexpr std::uint64_t kRow = kWidth / 2 * 4;
  EXPECT_EQ(checked_bytes(file, file.stored_ranges(0, file.size(), kRow)), kTensorBytes);
  EXPECT_TRUE(file.stored_ranges(0, file.size(), kRow + 1).empty());
}

TEST(StoredRanges, AreOfTheRangeThatIsAskedFor) {
  const CkptFile file(target(1, true), Rank(0));
  std::uint64_t single = 0;
  for (std::uint64_t at = 0; at < file.size(); ++at) {
    single += checked_bytes(file, file.stored_ranges(at, 1, 1));
  }
  EXPECT_EQ(single, 2 * kTensorBytes);
  EXPECT_TRUE(file.stored_ranges(0, 0, 1).empty());
  test::expect_error(ErrorKind::kBadInput, {"beyond the end of the file"},
                     [&] { file.stored_ranges(1, file.size(), 1); });
}

TEST(StoredRanges, AreNoConvertedElements) {
  TargetOptions options;
  options.casts = Casts({"w:fp32->bf16"});
  const CkptFile file(target(1, true, options), Rank(0));
  EXPECT_EQ(checked_bytes(file, file.stored_ranges(0, file.size(), 1)), kTensorBytes);
}

TEST(StoredRanges, JoinWhatLiesSideBySide) {
  const auto one = std::make_shared<test::MemorySource>("x", "one");
  const auto other = std::make_shared<test::MemorySource>("y", "other");
  const auto found = joined({{30, 5, 130, one},
                             {10, 10, 110, one},
                             {20, 10, 120, one},
                             {35, 5, 135, other},
                             {40, 5, 200, other},
                             {46, 5, 206, other}},
                            6);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].offset, 10);
  EXPECT_EQ(found[0].length, 25);
  EXPECT_EQ(found[0].source_offset, 110);
}

/// The data of a safetensors file begins where it begins in a page of the source.
TEST(StoredRanges, LieAsInTheSource) {
  auto common = std::make_shared<SafetensorsFile::Common>();
  common->align = 64;
  common->as_in_source = true;
  // Sources whose data begins at each multiple of 8, by the name of a text before it.
  for (std::size_t place = 0; place < 128; ++place) {
    const std::string text = record(std::string(place + 1, 'a'), {0}, "str", "text");
    auto set = memory_set({{0, text + record("w", {16, 16}, "Float32", counting_bytes(1024))}});
    auto table = std::make_shared<const SourceTable>(std::move(set), std::nullopt);
    auto shown =
        std::make_shared<const TargetTable>(std::move(table), std::nullopt, TargetOptions());
    const SafetensorsFile file(shown, Rank(0), arrays_of(*shown, Rank(0)), common);
    const auto ranges = file.stored_ranges(0, file.size(), 1);
    ASSERT_EQ(ranges.size(), 1);
    EXPECT_EQ(checked_bytes(file, ranges), 1024);
    const std::uint64_t in_source = ranges[0].source_offset % 64;
    EXPECT_EQ(ranges[0].offset % 64, in_source % 8 == 0 ? in_source : 0);
  }
}

}  // namespace
}  // namespace reshardfs::stored_ranges_tests
