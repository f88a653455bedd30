// SPDX-License-Identifier: Apache-2.0
#include "plan/source_table.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "base/rank_list.h"
#include "layout/fold.h"
#include "layout/slicing.h"
#include "plan/content_equal.h"

namespace reshardfs {
namespace {

// Enough to tell a slice from its neighbour, without reading whole tensors while mounting.
constexpr std::uint64_t kReplicaSampleBytes = 4096;

/// "ranks 0-3 have Float32 [4, 8], rank 4 has Float16 [4, 8]": the first two kinds that differ.
std::string differing_holders(const Holders& holders) {
  const auto same = [&](const Holding& a, const Holding& b) {
    return a.entry->dtype == b.entry->dtype && a.entry->shape == b.entry->shape;
  };
  const auto describe = [&](const Holding& like) {
    std::vector<std::int64_t> ranks;
    for (const Holding& h : holders) {
      if (same(h, like)) ranks.push_back(h.file->rank);
    }
    return (ranks.size() == 1 ? "rank " : "ranks ") + format_rank_list(ranks) + ": " +
           std::string(mindspore_name(like.entry->dtype)) + " " + to_string(like.entry->shape);
  };
  for (const Holding& holder : holders) {
    if (!same(holder, holders.front())) return describe(holders.front()) + "; " + describe(holder);
  }
  return describe(holders.front());
}

void require_one_type(const SourceParameter& parameter) {
  for (const Holders::Run& run : parameter.holders.runs()) {
    if (run.entry->dtype == parameter.dtype) continue;
    throw Error(ErrorKind::kBadInput, "its element type differs between the ranks (" +
                                          differing_holders(parameter.holders) + ")")
        .in_file(run.first->source->name())
        .for_parameter(parameter.name)
        .hint("take all files from one save of one training job");
  }
}

void require_countable(const SourceParameter& parameter, const Shape& full) {
  const std::int64_t elements = element_count(full);
  mul_or_throw(elements, element_size(parameter.dtype), "the full tensor's size");
}

}  // namespace

SourceTable::SourceTable(std::shared_ptr<const CheckpointSet> checkpoint,
                         std::optional<Strategy> strategy, NameGlobs join)
    : checkpoint_(std::move(checkpoint)), strategy_(std::move(strategy)), join_(std::move(join)) {
  find_base_rank();
  collect_holders();
  for (SourceParameter& parameter : parameters_) {
    require_one_type(parameter);
    lay_out(parameter);
  }
}

std::int64_t SourceTable::stage_devices() const noexcept {
  return strategy_ ? strategy_->devices_per_stage() : 1;
}

std::int64_t SourceTable::stage_count() const noexcept {
  return strategy_ ? strategy_->stage_count() : 1;
}

const SourceParameter* SourceTable::find(std::string_view name) const {
  sorted_.call([this] {
    std::vector<std::uint32_t> order(parameters_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
      return parameters_[a].name < parameters_[b].name;
    });
    by_name_ = std::move(order);
  });
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](std::uint32_t i, std::string_view n) { return parameters_[i].name < n; });
  if (found == by_name_.end() || parameters_[*found].name != name) return nullptr;
  return &parameters_[*found];
}

/// The file of one pipeline stage read alone belongs to that stage's global ranks, if they exist.
void SourceTable::find_base_rank() {
  const auto& files = checkpoint_->files();
  if (!strategy_) {
    base_rank_ = files.front().rank;
    return;
  }
  const std::int64_t first = strategy_->first_stage() * strategy_->devices_per_stage();
  const std::int64_t count = strategy_->rank_count();
  const auto inside = [&](std::int64_t begin) {
    return std::any_of(files.begin(), files.end(), [&](const RankFile& file) {
      return file.rank >= begin && file.rank < begin + count;
    });
  };
  const bool one_stage_of_many = first > 0 && inside(first);
  base_rank_ = one_stage_of_many ? first : 0;

  std::vector<std::int64_t> outside;
  for (const RankFile& file : files) {
    const bool is_inside = file.rank >= base_rank_ && file.rank < base_rank_ + count;
    if (!is_inside && (outside.empty() || outside.back() != file.rank)) {
      outside.push_back(file.rank);
    }
  }
  if (outside.empty() || one_stage_of_many) return;
  throw Error(ErrorKind::kBadInput,
              "the source strategy is for " + std::to_string(count) + " ranks (" +
                  std::to_string(strategy_->stage_count()) + " stages of " +
                  std::to_string(strategy_->devices_per_stage()) +
                  " devices), but the checkpoint also has rank " + format_rank_list(outside))
      .in_file(files.front().path.parent_path().string())
      .hint("give the strategy that this checkpoint was saved with (--src-strategy)");
}

void SourceTable::collect_holders() {
  const std::vector<RankFile>& files = checkpoint_->files();
  parameters_.reserve(files.front().index->entries().size());
  std::unordered_map<std::string_view, std::size_t> numbers;
  /// The parameter's number; a new one if the name is new.
  const auto number_of = [&](const TensorEntry& entry) {
    const auto [found, is_new] = numbers.try_emplace(entry.name, parameters_.size());
    if (is_new) parameters_.emplace_back(entry);
    return found->second;
  };
  for (std::size_t i = 0; i < files.size();) {
    std::size_t count = 1;
    while (i + count < files.size() && files[i + count].index == files[i].index) ++count;
    // Files of a stage list the same names in the same order: the next name is nearly always the
    // neighbour of the one before.
    std::size_t expected = 0;
    for (const TensorEntry& entry : files[i].index->entries()) {
      const bool is_neighbour =
          expected < parameters_.size() && parameters_[expected].name == entry.name;
      const std::size_t position = is_neighbour ? expected : number_of(entry);
      parameters_[position].holders.add({&files[i], count, &entry});
      expected = position + 1;
    }
    i += count;
  }
}

Holders SourceTable::holders_in_stage(const SourceParameter& parameter, std::int64_t stage) const {
  const std::int64_t begin = base_rank_ + stage * stage_devices();
  return parameter.holders.within(begin, begin + stage_devices());
}

void SourceTable::lay_out(SourceParameter& parameter) {
  // Text and maps are no arrays: they cannot be cut, and follow the rules for parameters without a
  // layout.
  if (parameter.dtype == DType::kMap) require_uncut(parameter);
  if (!is_array(parameter.dtype)) return;
  try {
    if (!strategy_ && matches_any(join_, parameter.name)) {
      parameter.layout = &joined_layouts_.emplace_back(joined_layout(parameter));
      parameter.grid = make_grid(parameter, *parameter.layout, base_rank_, parameter.holders);
      return;
    }
    if (!strategy_) {
      parameter.layout = &whole_layout(parameter.holders.front().entry->shape.size());
      parameter.grid = make_replicated_grid(parameter, *parameter.layout);
      return;
    }
    for (const std::int64_t stage : strategy_->stages_of(parameter.name)) {
      if (holders_in_stage(parameter, stage).empty()) continue;
      const Layout& layout = strategy_->stage(stage).at(parameter.name);
      parameter.grid = make_stage_grid(parameter, layout, stage);
      parameter.layout = &layout;
      return;
    }
  } catch (Error& error) {
    throw error.for_parameter(parameter.name);
  }
  if (strategy_->contains(parameter.name)) {
    std::vector<std::int64_t> ranks;
    for (const Holding& h : parameter.holders) ranks.push_back(h.file->rank);
    throw Error(ErrorKind::kBadInput,
                "the source strategy lays it out in another pipeline stage than that of rank " +
                    format_rank_list(ranks) + ", where it is")
        .in_file(parameter.holders.front().file->source->name())
        .for_parameter(parameter.name)
        .hint("check that --src-strategy is the one that this checkpoint was saved with");
  }
}

/// A map's keys are spread over the ranks by their hash: no layout says which are where.
void SourceTable::require_uncut(const SourceParameter& parameter) const {
  if (!strategy_) return;
  for (const std::int64_t stage : strategy_->stages_of(parameter.name)) {
    const Layout& layout = strategy_->stage(stage).at(parameter.name);
    const bool cut = layout.optimizer_shard_size != 0 ||
                     std::any_of(layout.tensor_map.begin(), layout.tensor_map.end(),
                                 [](const auto& axes) { return !axes.empty(); });
    if (!cut) continue;
    throw Error(ErrorKind::kUnsupported,
                "is a map parameter (maptensor) that the source strategy cuts (" +
                    to_string(layout) + "); maps can be carried over whole only")
        .in_file(parameter.holders.front().file->source->name())
        .for_parameter(parameter.name)
        .hint("--exclude leaves it out");
  }
}

bool SourceTable::equal_on_all_ranks(const SourceParameter& parameter) const {
  const auto number = static_cast<std::size_t>(&parameter - parameters_.data());
  const std::scoped_lock lock(verdicts_mutex_);
  const auto [verdict, is_new] = verdicts_.try_emplace(number, false);
  if (is_new) verdict->second = compare_ranks(parameter);
  return verdict->second;
}

Holders SourceTable::compared_holders(const SourceParameter& parameter) const {
  if (!strategy_) return parameter.holders;
  return holders_in_stage(parameter,
                          (parameter.holders.front().file->rank - base_rank_) / stage_devices());
}

bool SourceTable::compare_ranks(const SourceParameter& parameter) const {
  Holding stage_first;
  std::int64_t stage = -1;
  for (const Holding& holder : parameter.holders) {
    const std::int64_t own = (holder.file->rank - base_rank_) / stage_devices();
    const bool compare = strategy_ ? own == stage : bool(stage_first);
    if (compare && !content_equal(stage_first, holder)) return false;
    if (!compare) stage_first = holder;
    stage = own;
  }
  return true;
}

ShardGridPtr SourceTable::make_stage_grid(const SourceParameter& parameter, const Layout& layout,
                                          std::int64_t stage) const {
  return make_grid(parameter, layout, base_rank_ + stage * stage_devices(),
                   holders_in_stage(parameter, stage));
}

/// A pattern, in which the first file of each cell serves it, and what it was made for.
struct SourceTable::Arrangement {
  Layout layout;  ///< as written
  std::int64_t first_rank = 0;
  Holders holders;
  std::shared_ptr<const ShardPattern> pattern;
  std::vector<const TensorEntry*> entries;  ///< of each cell

  /// Whether other holders are arranged in the same way: the same files, all with one shape.
  bool is_for(const Layout& other_layout, std::int64_t rank, const Holders& others) const {
    if (holders.runs().size() != 1 || others.runs().size() != 1) return false;
    const Holders::Run& own = holders.runs().front();
    const Holders::Run& other = others.runs().front();
    return first_rank == rank && own.first == other.first && own.count == other.count &&
           own.entry->shape == other.entry->shape && layout == other_layout;
  }
};

std::shared_ptr<const SourceTable::Arrangement> SourceTable::arrangement(
    const SourceParameter& parameter, const Layout& layout_as_written, std::int64_t first_rank,
    const Holders& holders) const {
  // Models have few kinds of parameters; where there are more, they are worked out one by one.
  constexpr std::size_t kMostKinds = 256;
  const std::lock_guard lock(arrangements_mutex_);
  for (const auto& known : arrangements_) {
    if (known->is_for(layout_as_written, first_rank, holders)) return known;
  }
  const Layout layout =
      fold_expanded(layout_as_written, holders.front().entry->shape, /*is_slice=*/true);
  auto made = std::make_shared<Arrangement>();
  made->layout = layout_as_written;
  made->first_rank = first_rank;
  made->holders = holders;
  std::vector<RankSlice> slices;
  for (const Holding& holder : holders) {
    slices.emplace_back(holder.file->rank - first_rank, holder.entry->shape);
  }
  auto pattern = std::make_shared<ShardPattern>();
  pattern->full_shape = full_shape_of(layout, slices);
  require_countable(parameter, pattern->full_shape);
  const Slicing slicing(layout, pattern->full_shape);
  pattern->partitions = slicing.partitions();
  pattern->files.resize(static_cast<std::size_t>(slicing.cell_count()));
  made->entries.resize(pattern->files.size());
  for (const Holding& holder : holders) {
    const std::int64_t local = holder.file->rank - first_rank;
    if (holder.entry->shape != slicing.slice_shape(local)) {
      throw Error(ErrorKind::kBadInput, "the slice of rank " + std::to_string(holder.file->rank) +
                                            " should have the shape " +
                                            to_string(slicing.slice_shape(local)) + " (" +
                                            differing_holders(holders) + ")")
          .in_file(holder.file->source->name());
    }
    const auto cell = static_cast<std::size_t>(slicing.cell_of(local));
    if (pattern->files[cell] != nullptr) {  // ascending: the lowest replica is the first choice
      pattern->replicas.emplace_back(cell, holder.file);
      continue;
    }
    pattern->files[cell] = holder.file;
    made->entries[cell] = holder.entry;
  }
  std::sort(pattern->replicas.begin(), pattern->replicas.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->rank) < std::pair(b.first, b.second->rank);
  });
  pattern->replicas.shrink_to_fit();
  made->pattern = std::move(pattern);
  if (holders.runs().size() == 1 && arrangements_.size() < kMostKinds) {
    arrangements_.push_back(made);
  }
  return made;
}

ShardGridPtr SourceTable::make_grid(const SourceParameter& parameter,
                                    const Layout& layout_as_written, std::int64_t first_rank,
                                    const Holders& holders) const {
  const Holding first = holders.front();
  try {
    const auto arranged = arrangement(parameter, layout_as_written, first_rank, holders);
    require_countable(parameter, arranged->pattern->full_shape);
    // An arrangement that is shared is one of files with a single index.
    if (holders.runs().size() == 1) {
      return std::make_shared<const ShardGrid>(arranged->pattern, *first.entry);
    }
    return std::make_shared<const ShardGrid>(arranged->pattern, arranged->entries);
  } catch (Error& error) {
    throw Error(ErrorKind::kBadInput, error.message() + " (slice " + to_string(first.entry->shape) +
                                          "; source: " + to_string(layout_as_written) + ")")
        .in_file(error.file().empty() ? first.file->source->name() : error.file())
        .for_parameter(parameter.name)
        .hint("check that --src-strategy is the one that this checkpoint was saved with");
  }
}

/// One slice a rank along dimension 0, each as long as it is.
Layout SourceTable::joined_layout(const SourceParameter& parameter) const {
  const auto& files = checkpoint_->files();
  const std::int64_t ranks = files.back().rank - base_rank_ + 1;
  DimensionSplit rows;
  for (const Holding& holder : parameter.holders) {
    if (holder.entry->shape.empty()) {
      throw Error(ErrorKind::kBadInput, "a scalar cannot be joined")
          .in_file(holder.file->source->name());
    }
    rows.lengths.push_back(holder.entry->shape[0]);
  }
  if (static_cast<std::int64_t>(rows.lengths.size()) != ranks) {
    throw Error(ErrorKind::kMissing, "it is to be joined from " + std::to_string(ranks) +
                                         " ranks, but " + std::to_string(rows.lengths.size()) +
                                         " have a slice of it");
  }
  Layout layout;
  layout.device_matrix = {ranks};
  layout.tensor_map.resize(parameter.holders.front().entry->shape.size());
  layout.tensor_map[0] = {0};
  layout.uneven.resize(layout.tensor_map.size());
  layout.uneven[0] = std::move(rows);
  return layout;
}

const Layout& SourceTable::whole_layout(std::size_t dimensions) {
  const auto [found, is_new] = whole_layouts_.try_emplace(dimensions);
  if (is_new) {
    found->second.device_matrix = {1};
    found->second.tensor_map.resize(dimensions);
  }
  return found->second;
}

ShardGridPtr SourceTable::make_replicated_grid(const SourceParameter& parameter,
                                               const Layout& layout) const {
  const Holding first = parameter.holders.front();
  for (const Holding& holder : parameter.holders) {
    if (holder.file == first.file) continue;
    const bool same_shape = holder.entry->shape == first.entry->shape;
    if (same_shape && content_equal(first, holder, kReplicaSampleBytes)) continue;
    throw Error(ErrorKind::kBadInput,
                same_shape ? "it differs between rank " + std::to_string(first.file->rank) +
                                 " and rank " + std::to_string(holder.file->rank) +
                                 ", but without a source strategy every rank must hold the whole "
                                 "parameter"
                           : "its shape differs between the ranks (" +
                                 differing_holders(parameter.holders) +
                                 "), but there is no source strategy")
        .in_file(holder.file->source->name())
        .for_parameter(parameter.name)
        .hint(
            "give the strategy that it was saved with (--src-strategy), or name one rank's file "
            "as the source");
  }
  require_countable(parameter, first.entry->shape);
  Holders one;
  one.add({first.file, 1, first.entry});
  return make_grid(parameter, layout, first.file->rank, one);
}

ShardGridPtr SourceTable::grid_like(const SourceParameter& parameter,
                                    const SourceParameter& like) const {
  if (!strategy_ || !like.layout || !like.grid || !is_array(parameter.dtype)) {
    return nullptr;
  }
  for (const Holders::Run& run : parameter.holders.runs()) {
    const TensorEntry* twin = run.first->index->find(like.name);
    // The files of a run have one index. What is not in it may be in another part of each rank.
    const std::size_t count = twin == nullptr ? run.count : 1;
    for (std::size_t i = 0; i < count; ++i) {
      for (const RankFile& file : checkpoint_->files_of(run.first[i].rank)) {
        if (twin == nullptr) twin = file.index->find(like.name);
      }
      if (twin == nullptr || twin->shape != run.entry->shape) return nullptr;
      if (count > 1) twin = nullptr;
    }
  }
  for (const std::int64_t stage : strategy_->stages_of(like.name)) {
    if (holders_in_stage(parameter, stage).empty()) continue;
    return make_stage_grid(parameter, strategy_->stage(stage).at(like.name), stage);
  }
  return nullptr;
}

}  // namespace reshardfs
