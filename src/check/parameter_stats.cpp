// SPDX-License-Identifier: Apache-2.0
#include "check/parameter_stats.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/process/parallel.h"
#include "check/element_stats.h"
#include "checkpoint/holders.h"
#include "plan/source/cell_grid.h"
#include "plan/target/shown_elements.h"

namespace reshardfs {
namespace {

/// A multiple of every element's size; small enough to be in the second cache when it is added up.
constexpr std::uint64_t kStatsBlockBytes = 256U << 10U;
/// Tensors that are worked on together: what is remembered of them does not grow with ranks times
/// parameters.
constexpr std::size_t kBatchTensors = 8192;

/// Elements of a file as they stand there, or those that a model map makes.
struct Counted {
  Holding holding{};
  std::shared_ptr<const ShownElements> made{};  ///< nullptr: those of `holding`

  std::uint64_t bytes() const { return made ? made->size() : holding.entry->content_bytes; }
  DType dtype() const { return made ? made->dtype() : holding.entry->dtype; }
  std::uint64_t blocks() const { return (bytes() + kStatsBlockBytes - 1) / kStatsBlockBytes; }
  void read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const {
    made ? made->read(offset, out, batch) : read_content(holding, offset, out, batch);
  }
};

/// Each element once: all cells of a parameter, or one rank's slice.
using Cells = std::vector<Counted>;

ElementStats read_block(const Counted& cell, std::uint64_t number, Progress& progress) {
  thread_local std::vector<std::byte> buffer(kStatsBlockBytes);
  const std::uint64_t begin = number * kStatsBlockBytes;
  const auto bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(kStatsBlockBytes, cell.bytes() - begin));
  const std::span<std::byte> block = std::span(buffer).first(bytes);
  ReadBatch batch;
  cell.read(begin, block, batch);
  batch.check();
  progress.add_bytes(bytes);
  const DType dtype = cell.dtype();
  return stats_of(dtype, block.data(), bytes / static_cast<std::size_t>(element_size(dtype)));
}

/// Blocks are handed out one by one, so that one large tensor keeps all threads busy.
class Work {
 public:
  explicit Work(std::span<const Cells> tensors) {
    for (const Cells& cells : tensors) {
      std::uint64_t blocks = 0;
      for (const Counted& cell : cells) {
        cells_.push_back({cell, sums_.size(), first_block_, blocks});
        blocks += cell.blocks();
        first_block_ += cell.blocks();
      }
      sums_.emplace_back(blocks);
    }
  }

  std::vector<ElementStats> run(std::size_t jobs, Progress& progress) {
    parallel_for(
        static_cast<std::size_t>(first_block_), [&](std::size_t i) { add_block(i, progress); },
        jobs);
    std::vector<ElementStats> results;
    results.reserve(sums_.size());
    for (const PairwiseStats& sum : sums_) results.push_back(sum.result());
    return results;
  }

 private:
  struct PlacedCell {
    Counted cell;
    std::size_t tensor = 0;
    std::uint64_t first = 0;            ///< number of its first block among all
    std::uint64_t first_in_tensor = 0;  ///< and among those of the tensor
  };

  void add_block(std::uint64_t number, Progress& progress) {
    // Behind empty cells with the same first block stands the one that has it.
    const PlacedCell& placed = *std::prev(
        std::upper_bound(cells_.begin(), cells_.end(), number,
                         [](std::uint64_t n, const PlacedCell& other) { return n < other.first; }));
    const std::uint64_t in_cell = number - placed.first;
    sums_[placed.tensor].add(placed.first_in_tensor + in_cell,
                             read_block(placed.cell, in_cell, progress));
  }

  std::vector<PlacedCell> cells_;
  std::deque<PairwiseStats> sums_;
  std::uint64_t first_block_ = 0;  ///< in the end, their number
};

/// Of several tensors of one name: those of the same shape, type and statistics become one.
void add_grouped(ParameterStats entry, std::size_t first, std::vector<ParameterStats>& results) {
  const auto same = std::find_if(results.begin() + static_cast<std::ptrdiff_t>(first),
                                 results.end(), [&](const ParameterStats& other) {
                                   return entry.dtype == other.dtype &&
                                          entry.shape == other.shape &&
                                          entry.stats == other.stats && !other.ranks.empty() &&
                                          !entry.ranks.empty();
                                 });
  if (same == results.end()) {
    results.push_back(std::move(entry));
  } else {
    same->ranks.insert(same->ranks.end(), entry.ranks.begin(), entry.ranks.end());
  }
}

/// Collects tensors until there are enough to work on.
class Collector {
 public:
  Collector(const StatsOptions& options, Progress& progress)
      : options_(options), progress_(progress) {}

  /// @param dtype in which it is shown.
  void add_whole(const std::string& name, const CellGridPtr& grid, DType dtype) {
    Cells cells;
    if (has_numbers(dtype) && (grid->mapped() != nullptr || dtype != grid->dtype())) {
      cells.push_back({{}, std::make_shared<const ShownElements>(ShownTensor(grid), dtype)});
    } else if (has_numbers(dtype)) {
      for (std::size_t i = 0; i < grid->cell_count(); ++i) cells.push_back({grid->cell(i)});
    }
    add({name, dtype, grid->full_shape(), {}, std::nullopt}, std::move(cells), grid, true);
  }

  template <typename Holdings>
  void add_ranks(const std::string& name, const Holdings& holders) {
    bool new_name = true;
    for (const Holding& holding : holders) {
      const DType dtype = holding.entry->dtype;
      add({name, dtype, array_shape(*holding.entry), {holding.file->rank}, std::nullopt},
          has_numbers(dtype) ? Cells{{holding}} : Cells{}, nullptr, std::exchange(new_name, false));
    }
  }

  std::vector<ParameterStats> take() {
    work();
    return std::move(results_);
  }

 private:
  /// @param whole the parameter; nullptr: one rank's slice.
  void add(ParameterStats parameter, Cells cells, CellGridPtr whole, bool new_name) {
    if (new_name && tensors_.size() >= kBatchTensors) work();
    parameters_.push_back(std::move(parameter));
    tensors_.push_back(std::move(cells));
    wholes_.push_back(std::move(whole));
  }

  /// Reads again: few parameters have such elements, or they are soon found.
  std::optional<BadElement> find_first_bad(std::size_t i) const {
    if (!wholes_[i]) return first_bad_element(tensors_[i].front().holding);
    return first_bad_element(ShownElements(ShownTensor(wholes_[i]), parameters_[i].dtype));
  }

  void work() {
    const std::vector<ElementStats> sums = Work(tensors_).run(options_.jobs, progress_);
    std::size_t first = results_.size();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (results_.empty() || results_.back().name != parameters_[i].name) first = results_.size();
      if (has_numbers(parameters_[i].dtype)) parameters_[i].stats = sums[i];
      if (parameters_[i].is_bad()) parameters_[i].first_bad = find_first_bad(i);
      add_grouped(std::move(parameters_[i]), first, results_);
    }
    parameters_.clear();
    tensors_.clear();
    wholes_.clear();
  }

  const StatsOptions& options_;
  Progress& progress_;
  std::vector<ParameterStats> parameters_;
  std::vector<Cells> tensors_;       ///< of these, one each
  std::vector<CellGridPtr> wholes_;  ///< of these, one each; nullptr: a rank's slice
  std::vector<ParameterStats> results_;
};

std::uint64_t bytes_of(const SourceParameter& parameter) {
  if (!has_numbers(parameter.dtype)) return 0;
  std::uint64_t bytes = 0;
  if (parameter.grid && parameter.grid->mapped() != nullptr) {
    return ShownTensor(parameter.grid).size();
  }
  if (parameter.grid) {
    for (std::size_t i = 0; i < parameter.grid->cell_count(); ++i) {
      const Holding cell = parameter.grid->cell(i);
      if (cell) bytes += cell.entry->content_bytes;
    }
  } else {
    bytes = parameter.holders.front().entry->content_bytes;
  }
  return bytes;
}

}  // namespace

std::vector<ParameterStats> whole_stats(const DiffSide& source, const StatsOptions& options,
                                        Progress& progress) {
  std::vector<const SourceParameter*> parameters;
  for (const SourceParameter& parameter : source.table().parameters()) {
    if (!options.names.takes(parameter.name)) continue;
    parameters.push_back(&parameter);
    progress.expect_bytes(bytes_of(parameter));
  }
  // Of those without a layout this reads all copies.
  std::vector<CellGridPtr> grids(parameters.size());
  parallel_for(
      parameters.size(), [&](std::size_t i) { grids[i] = source.whole(*parameters[i]); },
      options.jobs);
  Collector collector(options, progress);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (grids[i]) {
      collector.add_whole(parameters[i]->name, grids[i], parameters[i]->dtype);
    } else {
      collector.add_ranks(parameters[i]->name, parameters[i]->holders);
    }
  }
  return collector.take();
}

std::vector<ParameterStats> file_stats(const CheckpointSet& set, const StatsOptions& options,
                                       Progress& progress) {
  std::vector<std::string> names;  // in file order
  std::unordered_map<std::string, std::vector<Holding>> holders;
  for (const RankFile& file : set.files()) {
    for (const TensorEntry& entry : file.index->entries()) {
      if (!options.names.takes(entry.name)) continue;
      const auto [found, is_new] = holders.try_emplace(entry.name);
      if (is_new) names.push_back(entry.name);
      found->second.push_back({&file, &entry});
      if (has_numbers(entry.dtype)) progress.expect_bytes(entry.content_bytes);
    }
  }
  Collector collector(options, progress);
  for (const std::string& name : names) collector.add_ranks(name, holders.at(name));
  return collector.take();
}

}  // namespace reshardfs
