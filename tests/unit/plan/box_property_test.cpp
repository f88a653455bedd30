// SPDX-License-Identifier: Apache-2.0
/// Random boxes of random tensors, read in random slices and ranges, against a look at each
/// element.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "plan/source/box_grids.h"
#include "plan/target/shown_tensor.h"
#include "support/boxes.h"
#include "support/dtypes.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

class BoxProperty : public testing::Test {
 protected:
  static constexpr unsigned kSeed = 20;

  BoxProperty() { RecordProperty("seed", static_cast<int>(kSeed)); }

  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }

  std::mt19937_64 random_{kSeed};
};

/// Every index of a box, row-major.
template <typename Visit>
void for_each_index(const Box& box, Visit&& visit) {
  if (element_count(box.sizes) == 0) return;
  Shape index = box.offsets;
  while (true) {
    visit(index);
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == box.offsets[d - 1] + box.sizes[d - 1]) {
      index[d - 1] = box.offsets[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

std::size_t linear(const Shape& index, const Shape& shape) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return static_cast<std::size_t>(at);
}

/// A tensor, and which of its elements are in boxes.
struct Tensor {
  Shape shape;
  DType dtype = DType::kInt8;
  std::string bytes;
  std::vector<Box> boxes;
  std::vector<bool> covered;  ///< by element

  std::size_t element() const { return static_cast<std::size_t>(element_size(dtype)); }
  std::string element_at(const Shape& index) const {
    return bytes.substr(linear(index, shape) * element(), element());
  }
  std::string content(const Box& box) const {
    std::string out;
    for_each_index(box, [&](const Shape& index) { out += element_at(index); });
    return out;
  }
};

/// A slice of it, element by element.
struct Slice {
  std::vector<AxisPartition> partitions;
  std::vector<std::int64_t> parts;
  Shape shape;
  std::vector<std::vector<std::int64_t>> rows;  ///< of the full tensor, by dimension

  std::vector<Shape> elements() const {
    std::vector<Shape> list;
    for_each_index({Shape(shape.size(), 0), shape}, [&](const Shape& index) {
      Shape full;
      for (std::size_t d = 0; d < index.size(); ++d) {
        full.push_back(rows[d][static_cast<std::size_t>(index[d])]);
      }
      list.push_back(std::move(full));
    });
    return list;
  }
};

class RandomBoxes : public BoxProperty {
 protected:
  Tensor tensor() {
    Tensor tensor;
    const auto dimensions = static_cast<std::size_t>(below(5));
    const std::int64_t most = dimensions > 2 ? 6 : 14;
    for (std::size_t d = 0; d < dimensions; ++d) {
      tensor.shape.push_back(one_in(40) ? 0 : 1 + below(most));
    }
    tensor.dtype = test::kNumberTypes.at(
        static_cast<std::size_t>(below(static_cast<std::int64_t>(test::kNumberTypes.size()))));
    const auto elements = static_cast<std::size_t>(element_count(tensor.shape));
    for (std::size_t i = 0; i < elements * tensor.element(); ++i) {
      tensor.bytes += static_cast<char>(below(256));
    }
    const Box whole{Shape(dimensions, 0), tensor.shape};
    if (one_in(2)) {
      divide(whole, 1 + below(12), tensor.boxes);
    } else {
      grow(whole, tensor.boxes);
    }
    std::shuffle(tensor.boxes.begin(), tensor.boxes.end(), random_);
    return tensor;
  }

  /// Cuts from side to side.
  void divide(const Box& box, std::int64_t count, std::vector<Box>& boxes) {
    const std::size_t dimensions = box.sizes.size();
    const auto d = static_cast<std::size_t>(
        dimensions == 0 ? 0 : below(static_cast<std::int64_t>(dimensions)));
    if (count < 2 || dimensions == 0 || box.sizes[d] < 2) {
      boxes.push_back(box);
      return;
    }
    Box low = box;
    Box high = box;
    low.sizes[d] = 1 + below(box.sizes[d] - 1);
    high.offsets[d] += low.sizes[d];
    high.sizes[d] -= low.sizes[d];
    divide(low, count / 2, boxes);
    divide(high, count - count / 2, boxes);
  }

  /// Boxes of random sizes wherever there is room: mostly no cut parts them.
  void grow(const Box& whole, std::vector<Box>& boxes) {
    std::vector<bool> taken(static_cast<std::size_t>(element_count(whole.sizes)), false);
    for_each_index(whole, [&](const Shape& index) {
      if (taken[linear(index, whole.sizes)]) return;
      Box box{index, Shape(index.size(), 1)};
      for (std::int64_t turn = below(8); turn > 0 && !index.empty(); --turn) {
        Box wider = box;
        const auto d = static_cast<std::size_t>(below(static_cast<std::int64_t>(index.size())));
        wider.sizes[d] += 1 + below(3);
        bool free = wider.offsets[d] + wider.sizes[d] <= whole.sizes[d];
        if (free) {
          for_each_index(wider,
                         [&](const Shape& at) { free = free && !taken[linear(at, whole.sizes)]; });
        }
        if (free) box = wider;
      }
      for_each_index(box, [&](const Shape& at) { taken[linear(at, whole.sizes)] = true; });
      boxes.push_back(box);
    });
  }

  /// Takes some boxes away.
  void lose(Tensor& tensor) {
    const auto count = static_cast<std::int64_t>(tensor.boxes.size());
    tensor.boxes.resize(static_cast<std::size_t>(one_in(4) ? below(count + 1) : count));
    tensor.covered.assign(static_cast<std::size_t>(element_count(tensor.shape)), false);
    for (const Box& box : tensor.boxes) {
      for_each_index(box,
                     [&](const Shape& at) { tensor.covered[linear(at, tensor.shape)] = true; });
    }
  }

  /// Up to four files; some boxes are in two of them, and some have no elements.
  std::vector<RankFile> files(const Tensor& tensor) {
    std::vector<std::vector<test::Piece>> pieces(1 + static_cast<std::size_t>(below(4)));
    const auto add = [&](const Box& box, std::size_t file) {
      std::vector<test::Piece>& list = pieces[file % pieces.size()];
      for (const test::Piece& other : list) {
        if (other.box == box) return;
      }
      list.push_back({"w", tensor.dtype, box, tensor.content(box)});
    };
    for (const Box& box : tensor.boxes) {
      const auto file = static_cast<std::size_t>(below(4));
      add(box, file);
      if (one_in(4)) add(box, file + 1);
      if (!box.sizes.empty() && one_in(10)) {
        Box none = box;
        none.sizes.front() = 0;
        if (one_in(2)) none.offsets.front() = tensor.shape.front();
        add(none, file);
      }
    }
    // Behind another parameter, so that a file has entries even where it has no box.
    std::vector<RankFile> list;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      pieces[i].push_back({"like", tensor.dtype, {{0}, {0}}, ""});
      list.push_back(test::piece_file(static_cast<std::int64_t>(i), pieces[i]));
    }
    return list;
  }

  Slice slice(const Shape& full) {
    Slice slice;
    for (const std::int64_t size : full) {
      AxisPartition partition = AxisPartition::even(size, 1);
      std::int64_t part = 0;
      std::vector<std::int64_t> rows;
      const std::int64_t fields = size > 0 && size % 4 == 0 ? 2 : 1;
      if (one_in(3)) {
        for (std::int64_t i = 0; i < size; ++i) rows.push_back(i);
      } else if (fields == 2 && one_in(2)) {
        // [fields, 2, rows]
        partition = AxisPartition::by_field(size, fields, 2);
        part = below(2);
        const std::int64_t each = size / 4;
        for (std::int64_t f = 0; f < fields; ++f) {
          for (std::int64_t i = 0; i < each; ++i) rows.push_back((f * 2 + part) * each + i);
        }
      } else {
        const std::int64_t first = below(size + 1);
        const std::int64_t length = below(size - first + 1);
        partition = AxisPartition::of_lengths({first, length, size - first - length});
        part = 1;
        for (std::int64_t i = 0; i < length; ++i) rows.push_back(first + i);
      }
      slice.partitions.push_back(partition);
      slice.parts.push_back(part);
      slice.shape.push_back(static_cast<std::int64_t>(rows.size()));
      slice.rows.push_back(std::move(rows));
    }
    return slice;
  }

  void check_slice(const Tensor& tensor, const CellGridPtr& grid);
  void check_ranges(const Tensor& tensor, const ShownTensor& view,
                    const std::vector<Shape>& elements);

  std::size_t whole_cells_ = 0;
  std::size_t failed_reads_ = 0;
  std::size_t reads_ = 0;
};

std::string read(const ShownTensor& view, std::uint64_t offset, std::uint64_t count) {
  std::vector<std::byte> out(static_cast<std::size_t>(count));
  ReadBatch batch;
  view.read(offset, out, batch);
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

void RandomBoxes::check_ranges(const Tensor& tensor, const ShownTensor& view,
                               const std::vector<Shape>& elements) {
  std::string expected;
  std::vector<bool> there;  // by byte
  for (const Shape& index : elements) {
    expected += tensor.element_at(index);
    there.resize(expected.size(), tensor.covered[linear(index, tensor.shape)]);
  }
  ASSERT_EQ(view.size(), expected.size());
  for (int range = 0; range < 3; ++range) {
    const auto size = static_cast<std::int64_t>(view.size());
    const std::int64_t offset = range == 0 ? 0 : below(size + 1);
    const std::int64_t count = range == 0 ? size : below(size - offset + 1);
    const auto first = static_cast<std::size_t>(offset);
    const auto last = static_cast<std::size_t>(offset + count);
    // Each byte in one run; in one without a source exactly what no box has.
    std::vector<int> runs(expected.size(), 0);
    view.for_each_run(ByteRange(first, last - first), [&](const StridedRun& run) {
      ASSERT_GE(run.length, 1U);
      ASSERT_GE(run.source_stride, run.length);
      for (std::uint64_t i = 0; i < run.count; ++i) {
        for (std::uint64_t b = 0; b < run.length; ++b) {
          const std::size_t at = run.destination_offset + i * run.destination_stride + b;
          ++runs.at(at);
          ASSERT_EQ(bool(run.holding), there[at]);
        }
      }
    });
    for (std::size_t b = 0; b < runs.size(); ++b) {
      ASSERT_EQ(runs[b], b >= first && b < last ? 1 : 0);
    }
    ++reads_;
    if (std::find(there.begin() + offset, there.begin() + offset + count, false) ==
        there.begin() + offset + count) {
      ASSERT_EQ(read(view, first, last - first), expected.substr(first, last - first));
    } else {
      ++failed_reads_;
      test::expect_error(ErrorKind::kMissing, {}, [&] { read(view, first, last - first); });
    }
  }
}

void RandomBoxes::check_slice(const Tensor& tensor, const CellGridPtr& grid) {
  const Slice wanted = slice(tensor.shape);
  const ShownTensor view(grid, wanted.partitions, wanted.parts);
  ASSERT_EQ(view.shape(), wanted.shape);
  const std::vector<Shape> elements = wanted.elements();
  check_ranges(tensor, view, elements);

  std::map<Box, std::uint64_t> bytes;  // of each box; of none, those of no box
  for (const Shape& index : elements) {
    Box owner;
    for (const Box& box : tensor.boxes) {
      bool inside = true;
      for (std::size_t d = 0; d < index.size(); ++d) {
        inside = inside && index[d] >= box.offsets[d] && index[d] < box.offsets[d] + box.sizes[d];
      }
      if (inside) owner = box;
    }
    if (tensor.covered[linear(index, tensor.shape)]) {
      bytes[owner] += tensor.element();
    } else {
      bytes[{{-1}, {}}] += tensor.element();
    }
  }
  std::map<Box, std::uint64_t> found;
  view.for_each_cell([&](const Holding& holding, std::uint64_t count) {
    Box box{{-1}, {}};
    if (holding) {
      const auto offsets = *holding.file->index->box_offsets(*holding.entry);
      box = {{offsets.begin(), offsets.end()}, holding.entry->shape};
    }
    ASSERT_TRUE(found.try_emplace(box, count).second);
  });
  ASSERT_EQ(found, bytes);

  const Holding whole = view.whole_cell();
  if (whole) {
    ++whole_cells_;
    ASSERT_EQ(whole.entry->content_bytes, view.size());
    ASSERT_EQ(found.size(), 1U);
  } else if (found.size() == 1 && found.begin()->first.offsets != Shape{-1}) {
    // Only a part of a box, or of several pieces in the slice's order.
    const Box& box = found.begin()->first;
    bool in_order = true;
    for (const auto& rows : wanted.rows) {
      in_order =
          in_order && rows.back() - rows.front() + 1 == static_cast<std::int64_t>(rows.size());
    }
    EXPECT_TRUE(!in_order ||
                found.begin()->second !=
                    static_cast<std::uint64_t>(element_count(box.sizes)) * tensor.element());
  }
}

TEST_F(RandomBoxes, AreReadLikeTheTensorThatTheyAreOf) {
  constexpr int kTensors = 6000;
  constexpr int kSlices = 5;
  for (int round = 0; round < kTensors && !HasFailure(); ++round) {
    SCOPED_TRACE("tensor " + std::to_string(round) + ", seed " + std::to_string(kSeed));
    Tensor tensor = this->tensor();
    lose(tensor);
    const auto checkpoint = test::box_set(files(tensor), {});
    const CheckpointSet& set = *checkpoint;
    Holders holders;
    for (const RankFile& file : set.files()) {
      for (const std::uint32_t number : file.index->find_all("w")) {
        holders.add({&file, 1, &file.index->entries()[number]});
      }
    }
    BoxGrids grids;
    const CellGridPtr grid = grids.make(boxes_of_entries(holders, tensor.shape),
                                        *set.files().front().index->find("like"));
    const bool complete =
        std::find(tensor.covered.begin(), tensor.covered.end(), false) == tensor.covered.end();
    const bool empty = tensor.covered.empty() && holders.empty();
    ASSERT_EQ(grid->complete(), complete && !empty);
    for (int i = 0; i < kSlices && !HasFailure(); ++i) check_slice(tensor, grid);
  }
  EXPECT_GT(whole_cells_, 1000U);
  EXPECT_GT(failed_reads_, 1000U);
  EXPECT_GT(reads_, 50'000U);
}

}  // namespace
}  // namespace reshardfs
