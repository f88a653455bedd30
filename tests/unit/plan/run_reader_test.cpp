// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/run_reader.h"

#include <gtest/gtest.h>

#include "plan/target/file_image.h"
#include "plan/target/shown_elements.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs::run_reader_tests {
namespace {

using test::counting_bytes;
using test::record;

/// Can gather, and counts what it does; a number of gathers fail.
class GatheringSource final : public test::Decorator {
 public:
  explicit GatheringSource(ByteSourcePtr inner, int failures = 0)
      : Decorator(std::move(inner)), failures_(failures) {}

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    ++reads_;
    Decorator::read_at(offset, out);
  }
  bool gather(const StridedRanges& ranges, std::byte* out) const override {
    ++gathers_;
    if (gathers_ <= failures_) {
      std::memset(out, 0x77, ranges.length());
      return false;
    }
    for (std::uint64_t i = 0; i < ranges.count(); ++i) {
      Decorator::read_at(ranges.offset_of(i), {out + ranges.out_offset_of(i), ranges.length()});
    }
    return true;
  }
  int reads() const { return reads_; }
  int gathers() const { return gathers_; }

 private:
  int failures_;
  mutable int reads_ = 0;
  mutable int gathers_ = 0;
};

/// A tensor [rows, columns] of bytes in one file, and the columns that one of `parts` ranks gets.
struct Columns {
  std::int64_t rows, columns, parts;
  std::string content;

  Columns(std::int64_t r, std::int64_t c, std::int64_t p) : rows(r), columns(c), parts(p) {
    content.resize(static_cast<std::size_t>(r * c));
    for (std::size_t i = 0; i < content.size(); ++i) {
      content[i] = static_cast<char>((i * 2654435761U) >> 11U);
    }
  }
  std::string file(std::int64_t cut = 0) const {
    const auto at = static_cast<std::size_t>(cut);
    return cut == 0 ? record("w", {rows, columns}, "UInt8", content)
                    : record("w", {rows, columns}, "UInt8", content.substr(0, at)) +
                          record("w", {rows, columns}, "UInt8", content.substr(at));
  }
  ShownTensor view(const RankFile& file, std::int64_t part) const {
    return {single_cell_grid({&file, &file.index->entries().front()}),
            {AxisPartition::even(rows, 1), AxisPartition::even(columns, parts)},
            {0, part}};
  }
  std::string expected(std::int64_t part) const {
    const std::int64_t width = columns / parts;
    std::string out;
    for (std::int64_t r = 0; r < rows; ++r) {
      out += content.substr(static_cast<std::size_t>(r * columns + part * width),
                            static_cast<std::size_t>(width));
    }
    return out;
  }
};

std::string read(const ShownTensor& view, ReadBatch& batch) {
  std::vector<std::byte> out(view.size());
  view.read(0, out, batch);
  return test::text_of(out);
}
std::string read(const ShownTensor& view) {
  ReadBatch batch;
  return read(view, batch);
}

/// How one part of the columns is read from a source that can gather.
struct Way {
  int reads = 0;
  int gathers = 0;
  bool operator==(const Way&) const = default;
};

Way way_of(const Columns& columns, int failures = 0) {
  RankFile file = test::rank_file(0, std::make_shared<test::MemorySource>(columns.file()));
  const auto source = std::make_shared<GatheringSource>(file.source, failures);
  file.source = source;
  EXPECT_EQ(read(columns.view(file, 1)), columns.expected(1));
  return {source->reads(), source->gathers()};
}

TEST(RunReader, GathersShortPiecesThatLieClose) {
  EXPECT_EQ(way_of({1000, 256, 8}), (Way{0, 1}));
  EXPECT_EQ(way_of({100, 8192, 2}), (Way{0, 1}));
  EXPECT_EQ(way_of({10, 32768, 64}), (Way{0, 1}));
}

TEST(RunReader, ReadsAFewRowsAtOnce) {
  EXPECT_EQ(way_of({100, 256, 8}), (Way{1, 0}));
}

TEST(RunReader, ReadsLongPiecesAndThoseFarApartOneByOne) {
  EXPECT_EQ(way_of({10, 32768, 2}), (Way{10, 0}));
  EXPECT_EQ(way_of({10, 65536, 64}), (Way{10, 0}));
}

TEST(RunReader, ReadsWhatCannotBeGathered) {
  EXPECT_EQ(way_of({4000, 256, 8}, 1), (Way{4, 1}));     // blocks of rows
  EXPECT_EQ(way_of({100, 16384, 8}, 1), (Way{100, 1}));  // one by one
}

TEST(RunReader, ReadsPiecesOverTheBorderOfTwoRecords) {
  const Columns columns(1000, 256, 8);
  for (const std::int64_t cut : {1, 256, 100'000, 255'999}) {
    const RankFile file =
        test::rank_file(0, std::make_shared<test::MemorySource>(columns.file(cut)));
    for (std::int64_t part = 0; part < 8; ++part) {
      EXPECT_EQ(read(columns.view(file, part)), columns.expected(part));
    }
  }
}

/// The same from a file on disk, whose ranges are gathered from a map.
class ColumnsOnDisk : public ::testing::Test {
 protected:
  FileImage image(std::int64_t part) const {
    FileImage out;
    ShownElements elements(columns_.view(file_, part), DType::kUInt8);
    const std::uint64_t bytes = elements.size();
    out.append_range(out.add_view(std::move(elements)), 0, bytes);
    return out;
  }
  static std::string read_all(const FileImage& image) {
    std::vector<std::byte> out(image.size());
    read_checked([&](ReadBatch& batch) { image.read(0, out, batch); });
    return test::text_of(out);
  }

  const Columns columns_{2000, 512, 8};
  const test::TempDir dir_;
  const std::filesystem::path path_ = dir_.write("rank_0/a.ckpt", columns_.file());
  const RankFile file_ = test::rank_file(0, open_local_file(path_));
};

TEST_F(ColumnsOnDisk, AreReadRightThroughAMap) {
  for (std::int64_t part = 0; part < 8; ++part) {
    EXPECT_EQ(read_all(image(part)), columns_.expected(part));
  }
}

TEST_F(ColumnsOnDisk, AreReadThroughAMapInTwoRecords) {
  dir_.write("rank_0/b.ckpt", columns_.file(700'001));
  const RankFile file = test::rank_file(0, open_local_file(dir_.path() / "rank_0/b.ckpt"));
  EXPECT_EQ(read(columns_.view(file, 3)), columns_.expected(3));
}

TEST_F(ColumnsOnDisk, EndInAnErrorWhenTheFileHasShrunk) {
  const FileImage part = image(5);
  for (const std::uintmax_t size :
       {std::uintmax_t{0}, std::uintmax_t{500'000}, std::filesystem::file_size(path_) - 1}) {
    std::filesystem::resize_file(path_, size);
    test::expect_error(ErrorKind::kChanged, {"a.ckpt", "become shorter"}, [&] { read_all(part); });
  }
}

TEST_F(ColumnsOnDisk, EndInAnErrorWhenTheFileHasChanged) {
  const FileImage part = image(5);
  EXPECT_EQ(read_all(part), columns_.expected(5));
  std::filesystem::last_write_time(
      path_, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  test::expect_error(ErrorKind::kChanged, {"a.ckpt", "been changed"}, [&] { read_all(part); });
}

}  // namespace
}  // namespace reshardfs::run_reader_tests
