// SPDX-License-Identifier: Apache-2.0
/// Tensors that a model map makes, of sources that are cut, in slices: element by element.
#include "plan/mapped/mapped_tensor.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "modelmap/form_operations.h"
#include "support/errors.h"
#include "support/form_places.h"
#include "support/sources.h"

namespace reshardfs::mapped_tensor_tests {
namespace {

constexpr unsigned kSeed = 15;
constexpr std::size_t kElement = 4;

/// Every index of a shape, row-major.
template <typename Visit>
void for_each_index(const Shape& shape, Visit&& visit) {
  if (element_count(shape) == 0) return;
  Shape index(shape.size(), 0);
  while (true) {
    visit(index);
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

/// A full tensor of 32-bit numbers that are all different, and the files that it is cut into.
struct CutTensor {
  Shape shape;
  std::vector<std::uint32_t> values;
  std::vector<std::shared_ptr<RankFile>> files;
  CellGridPtr grid;
};

class MappedTensors : public testing::Test {
 protected:
  MappedTensors() { RecordProperty("seed", static_cast<int>(kSeed)); }

  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }

  /// @param lost a cell that no file has; negative: none.
  CutTensor cut_tensor(const Shape& shape, std::int64_t lost = -1) {
    CutTensor tensor;
    tensor.shape = shape;
    for (std::int64_t i = 0; i < element_count(shape); ++i) tensor.values.push_back(next_value_++);
    auto pattern = std::make_shared<CellPattern>();
    pattern->full_shape = shape;
    Shape cells;
    for (const std::int64_t size : shape) {
      const std::int64_t at = below(size + 1);
      AxisPartition partition = AxisPartition::even(size, lost < 0 ? 1 : 2);
      if (below(2) == 0 && size % 4 == 0) partition = AxisPartition::by_field(size, 2, 2);
      if (below(3) == 0 && lost < 0) partition = AxisPartition::of_lengths({at, size - at});
      cells.push_back(partition.parts());
      pattern->partitions.push_back(std::move(partition));
    }
    std::vector<const TensorEntry*> entries;
    for_each_index(cells, [&](const Shape& cell) {
      if (static_cast<std::int64_t>(entries.size()) == lost) {
        pattern->files.push_back(nullptr);
        entries.push_back(nullptr);
        return;
      }
      tensor.files.push_back(file_of(tensor, *pattern, cell));
      pattern->files.push_back(tensor.files.back().get());
      entries.push_back(&tensor.files.back()->index->entries().front());
    });
    tensor.grid = std::make_shared<const CellGrid>(std::move(pattern), std::move(entries));
    return tensor;
  }

  std::shared_ptr<RankFile> file_of(const CutTensor& tensor, const CellPattern& pattern,
                                    const Shape& cell) {
    TensorEntry entry;
    entry.name = "source";
    entry.dtype = DType::kFloat32;
    Shape shape;
    std::vector<std::vector<std::int64_t>> rows;
    for (std::size_t d = 0; d < cell.size(); ++d) {
      std::vector<std::int64_t>& list = rows.emplace_back();
      for (const AxisInterval& interval : pattern.partitions[d].intervals_of(cell[d])) {
        for (std::int64_t i = interval.begin; i < interval.end; ++i) list.push_back(i);
      }
      shape.push_back(static_cast<std::int64_t>(list.size()));
    }
    entry.shape = shape;
    std::string bytes = "head";
    for_each_index(entry.shape, [&](const Shape& index) {
      std::int64_t at = 0;
      for (std::size_t d = 0; d < index.size(); ++d) {
        at = at * tensor.shape[d] + rows[d][static_cast<std::size_t>(index[d])];
      }
      const std::uint32_t value = tensor.values[static_cast<std::size_t>(at)];
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    });
    entry.content_bytes = bytes.size() - 4;
    if (entry.content_bytes > 0) entry.extents.emplace_back(4, entry.content_bytes);
    auto file = std::make_shared<RankFile>();
    file->path = "file" + std::to_string(next_value_);
    file->source = std::make_shared<test::MemorySource>(std::move(bytes), file->path.string());
    file->index = std::make_shared<const FileIndex>(std::vector{std::move(entry)});
    return file;
  }

  /// What models do: sources joined, cut in pieces, turned, padded.
  NormalForm random_form() {
    sources_.clear();
    const Shape shape{1 + below(6) * 2, 1 + below(5), 2 + below(6)};
    std::vector<NormalForm> forms;
    for (std::int64_t i = 0, count = 1 + below(3); i < count; ++i) {
      sources_.push_back(cut_tensor(shape));
      forms.push_back(NormalForm::of_source(shape, i));
    }
    NormalForm form = forms.size() == 1 ? forms.front()
                      : below(2) == 0   ? modelmap::concat(forms, below(3))
                                        : modelmap::stack(forms, below(4));
    for (std::int64_t i = below(5); i > 0 && !form.shape.empty(); --i) {
      const auto dimensions = static_cast<std::int64_t>(form.shape.size());
      const std::int64_t d = below(dimensions);
      const std::int64_t length = form.shape[static_cast<std::size_t>(d)];
      switch (below(6)) {
        case 0: {
          std::vector<std::int64_t> order(form.shape.size());
          for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<std::int64_t>(k);
          std::shuffle(order.begin(), order.end(), random_);
          form = modelmap::permute(std::move(form), order);
          break;
        }
        case 1:
          form = modelmap::reshape(std::move(form), {-1, form.shape.back()});
          break;
        case 2:
          if (length > 2) form = modelmap::slice(std::move(form), d, {1, length, 1 + below(2)});
          break;
        case 3:
          form = modelmap::repeat(std::move(form), d, 2);
          break;
        case 4:
          form = modelmap::pad(std::move(form), d, length + 2, Literal::integer(7));
          break;
        default:
          if (length > 1) form = modelmap::take(std::move(form), d, below(length));
      }
    }
    return form;
  }

  /// The elements as the form names them, which has a test of their own.
  std::string expected_bytes(const NormalForm& form) const {
    std::string bytes;
    for (const auto& [source, place] : test::places_of(form)) {
      const float seven = 7;
      std::uint32_t value = 0;
      std::memcpy(&value, &seven, sizeof value);
      if (source >= 0) {
        value = sources_[static_cast<std::size_t>(source)].values[static_cast<std::size_t>(place)];
      }
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    return bytes;
  }

  std::shared_ptr<const MappedTensor> tensor_of(const NormalForm& form) const {
    std::vector<CellGridPtr> grids;
    for (const CutTensor& source : sources_) grids.push_back(source.grid);
    return std::make_shared<const MappedTensor>(
        "target", DType::kFloat32,
        std::make_shared<const FormWalk>(std::make_shared<const NormalForm>(form)), grids);
  }

  void check_slice(const CellGridPtr& grid, const std::string& whole);

  std::mt19937_64 random_{kSeed};
  std::uint32_t next_value_ = 1'000'000;
  std::vector<CutTensor> sources_;
};

std::string read(const ShownTensor& view, std::uint64_t offset, std::uint64_t count) {
  std::vector<std::byte> out(static_cast<std::size_t>(count));
  ReadBatch batch;
  view.read(offset, out, batch);
  batch.check();
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

void MappedTensors::check_slice(const CellGridPtr& grid, const std::string& whole) {
  std::vector<AxisPartition> partitions;
  std::vector<std::int64_t> parts;
  std::vector<std::vector<std::int64_t>> rows;
  Shape shape;
  for (const std::int64_t size : grid->full_shape()) {
    const std::int64_t first = below(size + 1);
    const std::int64_t length = below(size - first + 1);
    AxisPartition partition = AxisPartition::even(size, 1);
    std::int64_t part = 0;
    if (below(2) == 0) {
      partition = AxisPartition::of_lengths({first, length, size - first - length});
      part = 1;
    } else if (size % 4 == 0 && below(2) == 0) {
      partition = AxisPartition::by_field(size, 2, 2);
      part = below(2);
    }
    std::vector<std::int64_t>& list = rows.emplace_back();
    for (const AxisInterval& interval : partition.intervals_of(part)) {
      for (std::int64_t i = interval.begin; i < interval.end; ++i) list.push_back(i);
    }
    shape.push_back(static_cast<std::int64_t>(list.size()));
    partitions.push_back(std::move(partition));
    parts.push_back(part);
  }
  std::string expected;
  for_each_index(shape, [&](const Shape& index) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      at = at * grid->full_shape()[d] + rows[d][static_cast<std::size_t>(index[d])];
    }
    expected += whole.substr(static_cast<std::size_t>(at) * kElement, kElement);
  });
  const ShownTensor view(grid, partitions, parts);
  ASSERT_EQ(view.size(), expected.size());
  ASSERT_EQ(read(view, 0, view.size()), expected);
  for (int i = 0; i < 3; ++i) {
    // At any byte, also inside elements.
    const std::int64_t offset = below(static_cast<std::int64_t>(expected.size()) + 1);
    const std::int64_t count = below(static_cast<std::int64_t>(expected.size()) - offset + 1);
    ASSERT_EQ(read(view, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(count)),
              expected.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(count)));
  }
  std::map<const RankFile*, std::uint64_t> counted;
  view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
    EXPECT_GT(bytes, 0U);
    counted[holding.file] += bytes;
  });
  std::map<const RankFile*, std::uint64_t> walked;
  view.for_each_run({0, view.size()}, [&](const StridedRun& run) {
    if (run.literal == nullptr) walked[run.holding.file] += run.length * run.count;
  });
  EXPECT_EQ(counted, walked);
}

TEST_F(MappedTensors, HaveTheElementsThatTheirFormNames) {
  std::size_t with_elements = 0;
  for (int round = 0; round < 3000 && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("tensor " + std::to_string(round));
    const NormalForm form = random_form();
    const auto tensor = tensor_of(form);
    const CellGridPtr grid = mapped_grid(tensor);
    EXPECT_EQ(grid->name(), "target");
    EXPECT_EQ(grid->full_shape(), form.shape);
    EXPECT_TRUE(grid->complete());
    const std::string whole = expected_bytes(form);
    ASSERT_EQ(read(ShownTensor(grid), 0, whole.size()), whole);
    if (!whole.empty()) ++with_elements;
    for (int i = 0; i < 4 && !HasFatalFailure(); ++i) check_slice(grid, whole);
  }
  EXPECT_GT(with_elements, 2500U);
}

TEST_F(MappedTensors, TakeGroupsOfRowsFromCutSources) {
  for (int round = 0; round < 200 && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("tensor " + std::to_string(round));
    sources_ = {};
    sources_.push_back(cut_tensor({24, 6}));
    // As the query heads of each group: some rows of every eight, every second one perhaps.
    NormalForm form = modelmap::reshape(NormalForm::of_source({24, 6}, 0), {3, 8, 6});
    const std::int64_t first = below(6);
    form = modelmap::slice(std::move(form), 1, {first, first + 1 + below(8 - first), 1 + below(2)});
    form = modelmap::reshape(std::move(form), {-1, 6});
    if (below(2) == 0) form = modelmap::permute(std::move(form), {1, 0});
    check_slice(mapped_grid(tensor_of(form)), expected_bytes(form));
  }
}

TEST_F(MappedTensors, AreTheSameThroughTwoMaps) {
  for (int round = 0; round < 300 && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("tensor " + std::to_string(round));
    const NormalForm first = random_form();
    if (first.elements() == 0) continue;
    const std::string between = expected_bytes(first);
    const CellGridPtr grid = mapped_grid(tensor_of(first));

    // The second one turns and cuts what the first one makes.
    NormalForm second = NormalForm::of_source(first.shape, 0);
    second =
        modelmap::reshape(std::move(second), {-1, first.shape.empty() ? 1 : first.shape.back()});
    second = modelmap::permute(std::move(second), {1, 0});
    if (second.shape[1] > 1)
      second = modelmap::slice(std::move(second), 1, {0, second.shape[1], 2});
    std::string expected;
    for (const auto& [source, place] : test::places_of(second)) {
      expected += between.substr(static_cast<std::size_t>(place) * kElement, kElement);
    }
    const auto walk = std::make_shared<const FormWalk>(std::make_shared<const NormalForm>(second));
    check_slice(mapped_grid(std::make_shared<const MappedTensor>("again", DType::kFloat32, walk,
                                                                 std::vector{grid})),
                expected);
  }
}

TEST_F(MappedTensors, ReadATransposedTensorInLargePieces) {
  sources_ = {};
  sources_.push_back(cut_tensor({300, 200}));
  sources_.push_back(cut_tensor({300, 200}));
  std::vector<std::shared_ptr<test::CountingSource>> counting;
  for (const CutTensor& source : sources_) {
    for (const auto& file : source.files) {
      counting.push_back(std::make_shared<test::CountingSource>(file->source));
      file->source = counting.back();
    }
  }
  // As the experts of a model: two matrices side by side, turned.
  const NormalForm form = modelmap::permute(
      modelmap::concat({NormalForm::of_source({300, 200}, 0), NormalForm::of_source({300, 200}, 1)},
                       0),
      {1, 0});
  const ShownTensor view(mapped_grid(tensor_of(form)));
  ASSERT_EQ(read(view, 0, view.size()), expected_bytes(form));
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;
  for (const auto& source : counting) {
    bytes += source->bytes();
    reads += source->reads();
  }
  // Where a strategy cuts rows in fields, what lies between the fields of a part is read, too.
  EXPECT_LE(bytes, view.size() * 2);
  EXPECT_LT(reads, 2 * 300 * 4U);  // not one for each of 120,000 elements
}

TEST_F(MappedTensors, FailWhereACellIsInNoFile) {
  sources_ = {};
  sources_.push_back(cut_tensor({4, 6}, 0));
  const auto tensor = tensor_of(NormalForm::of_source({4, 6}, 0));
  const CellGridPtr grid = mapped_grid(tensor);
  EXPECT_FALSE(grid->complete());
  test::expect_error(ErrorKind::kMissing, {"target"},
                     [&] { read(ShownTensor(grid), 0, ShownTensor(grid).size()); });
}

TEST_F(MappedTensors, ReadATransposedTensorInFewRuns) {
  sources_ = {};
  sources_.push_back(cut_tensor({64, 48}));
  const auto tensor = tensor_of(modelmap::permute(NormalForm::of_source({64, 48}, 0), {1, 0}));
  std::size_t runs = 0;
  ShownTensor(mapped_grid(tensor)).for_each_run({0, 64 * 48 * kElement}, [&](const StridedRun&) {
    ++runs;
  });
  const std::size_t cells = sources_.front().grid->cell_count();
  EXPECT_LE(runs, 48U * 4 * cells);  // by_field has two intervals a part
}

}  // namespace
}  // namespace reshardfs::mapped_tensor_tests
