// SPDX-License-Identifier: Apache-2.0
#include "plan/target/shown_tensor.h"

#include <random>

#include <gtest/gtest.h>

#include "layout/slicing.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/wire.h"

namespace reshardfs::tensor_view_tests {
namespace {

using test::counting_bytes;
using test::memory_set;
using test::record;

/// A full tensor [rows, columns] of Int16 cut in row x column blocks, one block a rank.
struct Blocks {
  std::int64_t rows, columns, row_parts, column_parts;
  std::shared_ptr<const CheckpointSet> set;
  std::shared_ptr<CellPattern> pattern = std::make_shared<CellPattern>();
  CellGridPtr grid;

  Blocks(std::int64_t r, std::int64_t c, std::int64_t rp, std::int64_t cp)
      : rows(r), columns(c), row_parts(rp), column_parts(cp) {
    const std::int64_t height = r / rp;
    const std::int64_t width = c / cp;
    std::map<std::int64_t, std::string> files;
    for (std::int64_t i = 0; i < rp * cp; ++i) {
      files[i] = record("w", {height, width}, "Int16",
                        block(i / cp * height, i % cp * width, height, width));
    }
    set = memory_set(files);
    pattern->full_shape = {r, c};
    pattern->partitions = {AxisPartition::even(r, rp), AxisPartition::even(c, cp)};
    std::vector<const TensorEntry*> entries;
    for (const RankFile& file : set->files()) {
      pattern->files.push_back(&file);
      entries.push_back(&file.index->entries().front());
    }
    grid = std::make_shared<const CellGrid>(pattern, std::move(entries));
  }

  /// What any block must hold, element by element.
  std::string block(std::int64_t row, std::int64_t column, std::int64_t height,
                    std::int64_t width) const {
    std::string out;
    for (std::int64_t r = row; r < row + height; ++r) {
      for (std::int64_t c = column; c < column + width; ++c) {
        const auto value = static_cast<std::uint16_t>(r * columns + c);
        out += static_cast<char>(value & 0xff);
        out += static_cast<char>(value >> 8);
      }
    }
    return out;
  }

  ShownTensor view(std::int64_t rp, std::int64_t cp, std::int64_t i, std::int64_t j) const {
    return {grid, {AxisPartition::even(rows, rp), AxisPartition::even(columns, cp)}, {i, j}};
  }
};

std::string read(const ShownTensor& view, std::uint64_t offset, std::size_t count) {
  std::vector<std::byte> out(count);
  ReadBatch batch;
  view.read(offset, out, batch);
  return test::text_of(out);
}

TEST(ShownTensor, ReadsEveryRangeOfEverySlice) {
  const Blocks blocks(12, 12, 3, 2);
  for (const auto& [rp, cp] : {std::pair(1, 1), {2, 3}, {4, 1}, {1, 4}, {6, 2}, {3, 2}}) {
    const std::int64_t height = 12 / rp;
    const std::int64_t width = 12 / cp;
    for (std::int64_t i = 0; i < rp; ++i) {
      for (std::int64_t j = 0; j < cp; ++j) {
        const ShownTensor view = blocks.view(rp, cp, i, j);
        const std::string whole = blocks.block(i * height, j * width, height, width);
        ASSERT_EQ(view.size(), whole.size());
        ASSERT_EQ(read(view, 0, whole.size()), whole);
        for (std::size_t offset = 0; offset < whole.size(); offset += 5) {
          for (std::size_t count = 1; offset + count <= whole.size(); count += 7) {
            ASSERT_EQ(read(view, offset, count), whole.substr(offset, count));
          }
        }
      }
    }
  }
}

TEST(ShownTensor, CoversEveryByteOnceWithItsRuns) {
  const Blocks blocks(12, 12, 3, 4);
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const ShownTensor view = blocks.view(2, 3, round % 2, round % 3);
    const std::uint64_t offset = random() % view.size();
    const std::uint64_t length = random() % (view.size() - offset + 1);
    std::vector<int> hits(view.size(), 0);
    view.for_each_run({offset, length}, [&](const StridedRun& run) {
      ASSERT_GE(run.length, 1U);
      for (std::uint64_t i = 0; i < run.count; ++i) {
        for (std::uint64_t b = 0; b < run.length; ++b) {
          ++hits.at(run.destination_offset + i * run.destination_stride + b);
        }
      }
    });
    for (std::uint64_t b = 0; b < view.size(); ++b) {
      ASSERT_EQ(hits[b], b >= offset && b < offset + length ? 1 : 0);
    }
  }
}

std::size_t run_count(const ShownTensor& view) {
  std::size_t runs = 0;
  view.for_each_run(ByteRange::whole(view.size()), [&](const StridedRun&) { ++runs; });
  return runs;
}

TEST(ShownTensor, NeedsOneRunForAContiguousRange) {
  const Blocks blocks(12, 12, 3, 1);
  EXPECT_EQ(run_count(blocks.view(3, 1, 1, 0)), 1U);  // a whole source slice
  blocks.view(3, 1, 1, 0).for_each_run({0, 96}, [](const StridedRun& run) {
    EXPECT_EQ(run.count, 1U);  // not a run of rows
    EXPECT_EQ(run.length, 96U);
  });
  EXPECT_EQ(run_count(blocks.view(6, 1, 1, 0)), 1U);  // half of one
  EXPECT_EQ(run_count(blocks.view(1, 1, 0, 0)), 3U);  // three, one after the other
}

TEST(ShownTensor, NeedsOneStridedRunForAColumnBlockOfManyRows) {
  const Blocks blocks(1024, 8, 1, 2);
  EXPECT_EQ(run_count(blocks.view(1, 4, 0, 3)), 1U);
  EXPECT_EQ(run_count(blocks.view(1, 1, 0, 0)), 2U);
}

TEST(ShownTensor, CountsTheBytesOfEachCell) {
  const Blocks blocks(12, 12, 3, 2);
  std::map<std::int64_t, std::uint64_t> bytes;
  blocks.view(2, 1, 0, 0).for_each_cell([&](const Holding& h, std::uint64_t b) {
    bytes[h.file->rank.number()] += b;
  });
  EXPECT_EQ(bytes, (std::map<std::int64_t, std::uint64_t>{{0, 48}, {1, 48}, {2, 24}, {3, 24}}));
}

TEST(ShownTensor, IsAWholeCellOrNone) {
  const Blocks blocks(12, 12, 3, 2);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 2; ++j) {
      ASSERT_TRUE(blocks.view(3, 2, i, j).whole_cell());
      EXPECT_EQ(blocks.view(3, 2, i, j).whole_cell().file->rank, Rank(i * 2 + j));
    }
  }
  EXPECT_FALSE(blocks.view(3, 1, 0, 0).whole_cell());
  EXPECT_FALSE(blocks.view(1, 2, 0, 0).whole_cell());
  EXPECT_FALSE(blocks.view(6, 2, 0, 0).whole_cell());
  // As long as a source part, but of two of them.
  const ShownTensor across(
      blocks.grid, {AxisPartition::of_lengths({2, 4, 6}), AxisPartition::even(12, 2)}, {1, 0});
  EXPECT_FALSE(across.whole_cell());
}

TEST(ShownTensor, BearsThirtyTwoDimensions) {
  const auto set = memory_set({{0, record("w", {1}, "Int8", "x")}});
  const RankFile& file = set->files().front();
  TensorEntry entry = file.index->entries().front();
  entry.shape = Shape(32, 1);
  const ShownTensor view(single_cell_grid(Holding{&file, &entry}));
  EXPECT_EQ(read(view, 0, 1), "x");
  entry.shape = Shape(33, 1);
  test::expect_error(ErrorKind::kUnsupported, {"'w'", "more than 32 dimensions"}, [&] {
    ShownTensor(single_cell_grid(Holding{&file, &entry}));
  });
}

TEST(ShownTensor, ReadsEveryRangeOfThreeDimensions) {
  // 4 x 6 x 5 bytes: the source is cut in every dimension, in two parts, three, and unevenly.
  const std::vector<AxisPartition> cut{AxisPartition::even(4, 2), AxisPartition::even(6, 3),
                                       AxisPartition::of_lengths({2, 0, 3})};
  const auto element = [](std::int64_t i, std::int64_t j, std::int64_t k) {
    return static_cast<char>('0' + (i * 6 + j) * 5 + k);
  };
  /// The elements of a slice, by the definition of its parts.
  const auto slice = [&](const std::vector<AxisPartition>& partitions, std::int64_t a,
                         std::int64_t b, std::int64_t c) {
    std::string out;
    for (const AxisInterval& x : partitions[0].intervals_of(a)) {
      for (std::int64_t i = x.begin; i < x.end; ++i) {
        for (const AxisInterval& y : partitions[1].intervals_of(b)) {
          for (std::int64_t j = y.begin; j < y.end; ++j) {
            for (const AxisInterval& z : partitions[2].intervals_of(c)) {
              for (std::int64_t k = z.begin; k < z.end; ++k) out += element(i, j, k);
            }
          }
        }
      }
    }
    return out;
  };
  std::map<std::int64_t, std::string> files;
  for (std::int64_t cell = 0; cell < 18; ++cell) {
    const std::int64_t c = cell % 3;
    files[cell] =
        record("w", {2, 2, cut[2].part_length(c)}, "Int8", slice(cut, cell / 9, cell / 3 % 3, c));
  }
  const auto set = memory_set(files);
  auto pattern = std::make_shared<CellPattern>();
  pattern->full_shape = {4, 6, 5};
  pattern->partitions = cut;
  std::vector<const TensorEntry*> entries;
  for (const RankFile& file : set->files()) {
    pattern->files.push_back(&file);
    entries.push_back(&file.index->entries().front());
  }
  const auto grid = std::make_shared<const CellGrid>(pattern, entries);
  const std::vector<std::vector<AxisPartition>> wanted{
      {AxisPartition::even(4, 1), AxisPartition::even(6, 1), AxisPartition::even(5, 1)},
      {AxisPartition::even(4, 4), AxisPartition::even(6, 2), AxisPartition::even(5, 1)},
      {AxisPartition::even(4, 2), AxisPartition::by_field(6, 3, 2), AxisPartition::even(5, 5)},
      {AxisPartition::of_lengths({1, 3}), AxisPartition::even(6, 6), cut[2]},
      {AxisPartition::even(4, 1), AxisPartition::even(6, 3), cut[2]}};
  for (const auto& partitions : wanted) {
    for (std::int64_t a = 0; a < partitions[0].parts(); ++a) {
      for (std::int64_t b = 0; b < partitions[1].parts(); ++b) {
        for (std::int64_t c = 0; c < partitions[2].parts(); ++c) {
          const ShownTensor view(grid, partitions, {a, b, c});
          const std::string whole = slice(partitions, a, b, c);
          ASSERT_EQ(view.size(), whole.size());
          for (std::size_t offset = 0; offset <= whole.size(); ++offset) {
            for (std::size_t count = 0; offset + count <= whole.size(); count += 3) {
              ASSERT_EQ(read(view, offset, count), whole.substr(offset, count));
            }
          }
        }
      }
    }
  }
}

TEST(ShownTensor, SaysThatAPartIsMissing) {
  Blocks blocks(12, 12, 3, 1);
  blocks.pattern->files[1] = nullptr;
  EXPECT_EQ(read(blocks.view(3, 1, 0, 0), 0, 96), blocks.block(0, 0, 4, 12));
  test::expect_error(ErrorKind::kMissing, {"'w'"}, [&] { read(blocks.view(1, 1, 0, 0), 0, 200); });
}

TEST(ShownTensor, ReadsAScalar) {
  const auto set = memory_set({{0, record("s", {}, "Float64", "abcdefgh")}});
  const RankFile& file = set->files().front();
  const ShownTensor view(single_cell_grid({&file, &file.index->entries().front()}));
  EXPECT_EQ(view.size(), 8U);
  EXPECT_EQ(read(view, 3, 4), "defg");
  EXPECT_EQ(read(view, 7, 1), "h");
  EXPECT_EQ(run_count(view), 1U);
  view.for_each_run({8, 0}, [](const StridedRun&) { FAIL(); });
  EXPECT_EQ(view.whole_cell().file, &file);
}

TEST(ShownTensor, ReadsAScalarFromAReplica) {
  std::vector<RankFile> files;
  for (const std::int64_t rank : {0, 1}) {
    files.push_back(test::rank_file(
        rank, std::make_shared<test::MemorySource>(record("s", {}, "Int16", "ab"))));
  }
  files[0].source = std::make_shared<test::FaultSource>(files[0].source, 1, EIO);
  Holders holders;
  for (const RankFile& file : files) holders.add({&file, 1, &file.index->entries().front()});
  const ShownTensor view(single_cell_grid(holders));
  std::vector<std::byte> out(2);
  read_checked([&](ReadBatch& batch) { view.read(0, out, batch); });
  EXPECT_EQ(test::text_of(out), "ab");
}

TEST(ShownTensor, HasNoRunsWithoutElements) {
  auto pattern = std::make_shared<CellPattern>();
  pattern->full_shape = {4, 0};
  pattern->partitions = {AxisPartition::even(4, 1), AxisPartition::even(0, 1)};
  pattern->files.resize(1);
  const TensorEntry entry;
  const ShownTensor view(std::make_shared<const CellGrid>(pattern, entry));
  EXPECT_EQ(view.size(), 0U);
  EXPECT_EQ(run_count(view), 0U);
  view.for_each_cell([](const Holding&, std::uint64_t) { FAIL(); });
}

TEST(ShownTensor, PassesOnWhatASourceThrows) {
  const std::string bytes = record("w", {4}, "Int8", "abcd");
  const auto inner = std::make_shared<test::MemorySource>(bytes);
  RankFile file = test::rank_file(0, inner);
  file.source = std::make_shared<test::FaultSource>(inner, 1, EIO);
  const ShownTensor view(single_cell_grid({&file, &file.index->entries().front()}));
  test::expect_error(ErrorKind::kIo, {"memory.ckpt"}, [&] { read(view, 0, 4); });
  EXPECT_EQ(read(view, 0, 4), "abcd");  // the next read finds the source well again
}

TEST(ShownTensor, ReadsEachSourceByteOnceForALongRun) {
  const auto inner = std::make_shared<test::MemorySource>(
      record("w", {64, 1024}, "Float32", counting_bytes(64 * 4096)));
  RankFile file = test::rank_file(0, inner);
  const auto counting = std::make_shared<test::CountingSource>(inner);
  file.source = counting;
  const ShownTensor view(single_cell_grid({&file, &file.index->entries().front()}));
  EXPECT_EQ(read(view, 0, 64 * 4096), counting_bytes(64 * 4096));
  EXPECT_EQ(counting->reads(), 1U);
  EXPECT_EQ(counting->bytes(), 64U * 4096);
}

}  // namespace
}  // namespace reshardfs::tensor_view_tests
