// SPDX-License-Identifier: Apache-2.0
#include "plan/source_table.h"

#include <algorithm>
#include <numeric>

#include "base/rank_list.h"
#include "plan/content_equal.h"

namespace reshardfs {
namespace {

void require_one_type(const SourceParameter& parameter) {
  for (const Holders::Run& run : parameter.holders.runs()) {
    if (run.entry->dtype == parameter.dtype) continue;
    throw Error(ErrorKind::kBadInput, "its element type differs between the ranks (" +
                                          differing_words(parameter.holders) + ")")
        .in_file(run.first->source->name())
        .for_parameter(parameter.name)
        .hint("take all files from one save of one training job");
  }
}

}  // namespace

SourceTable::SourceTable(std::shared_ptr<const CheckpointSet> checkpoint,
                         std::optional<Strategy> strategy, NameGlobs join, const NameTaker& takes)
    : checkpoint_(std::move(checkpoint)),
      strategy_(std::move(strategy)),
      ranks_(strategy_ ? SourceRanks(*checkpoint_, *strategy_) : SourceRanks(*checkpoint_)),
      join_(std::move(join)) {
  collect_holders();
  for (SourceParameter& parameter : parameters_) {
    require_one_type(parameter);
    lay_out(parameter, !takes || takes(parameter.name));
  }
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
  return parameter.holders.within(ranks_.of_stage(stage));
}

void SourceTable::lay_out(SourceParameter& parameter, bool is_taken) {
  // Text and maps are no arrays: they cannot be cut, and follow the rules for parameters without a
  // layout.
  if (parameter.dtype == DType::kMap) require_uncut(parameter);
  if (!is_array(parameter.dtype)) return;
  try {
    if (!strategy_ && matches_any(join_, parameter.name)) {
      parameter.layout = &joined_layouts_.emplace_back(joined_layout(parameter));
      parameter.grid =
          make_grid(parameter, *parameter.layout, ranks_.all().first(), parameter.holders);
      return;
    }
    if (!strategy_) {
      if (!is_taken && !has_one_shape(parameter.holders)) return;
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
    std::vector<Rank> ranks;
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
  {
    const std::scoped_lock lock(verdicts_mutex_);
    const auto known = verdicts_.find(number);
    if (known != verdicts_.end()) return known->second;
  }
  // Without the lock, which others wait for. What throws is no verdict.
  const bool equal = compare_ranks(parameter);
  const std::scoped_lock lock(verdicts_mutex_);
  return verdicts_.try_emplace(number, equal).first->second;
}

Holders SourceTable::compared_holders(const SourceParameter& parameter) const {
  if (!strategy_) return parameter.holders;
  return holders_in_stage(parameter, ranks_.stage_of(parameter.holders.front().file->rank));
}

bool SourceTable::compare_ranks(const SourceParameter& parameter) const {
  Holding stage_first;
  std::optional<std::int64_t> stage;
  for (const Holding& holder : parameter.holders) {
    const std::int64_t own = ranks_.stage_of(holder.file->rank);
    const bool compare = strategy_ ? own == stage : bool(stage_first);
    if (compare && !content_equal(stage_first, holder)) return false;
    if (!compare) stage_first = holder;
    stage = own;
  }
  return true;
}

ShardGridPtr SourceTable::make_stage_grid(const SourceParameter& parameter, const Layout& layout,
                                          std::int64_t stage) const {
  return make_grid(parameter, layout, ranks_.of_stage(stage).first(),
                   holders_in_stage(parameter, stage));
}

ShardGridPtr SourceTable::make_grid(const SourceParameter& parameter,
                                    const Layout& layout_as_written, Rank first_rank,
                                    const Holders& holders) const {
  const Holding first = holders.front();
  try {
    const auto arranged = arrangements_.find_or_make(layout_as_written, first_rank, holders);
    require_countable(arranged->pattern->full_shape, parameter.dtype);
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
  const std::int64_t ranks = files.back().rank - ranks_.all().first() + 1;
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
  for (const Holders::Run& run : parameter.holders.runs()) {
    if (run.entry->shape == first.entry->shape) continue;
    throw Error(ErrorKind::kBadInput, "its shape differs between the ranks (" +
                                          differing_words(parameter.holders) +
                                          "), but there is no source strategy")
        .in_file(run.first->source->name())
        .for_parameter(parameter.name)
        .hint(
            "give the strategy that it was saved with (--src-strategy), or name one rank's file "
            "as the source");
  }
  require_countable(first.entry->shape, parameter.dtype);
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
