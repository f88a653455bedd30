// SPDX-License-Identifier: Apache-2.0
#include "plan/source/source_table.h"

#include <algorithm>
#include <span>

#include "base/rank_list.h"
#include "base/text/name_groups.h"
#include "base/text/name_order.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "checkpoint/completeness.h"
#include "checkpoint/whole/whole_catalogue.h"
#include "plan/replicas/replica_check.h"
#include "plan/source/strategy_catalogue.h"

namespace reshardfs {
namespace {

void require_one_type(const SourceParameter& parameter) {
  for (const Holders::Row& row : parameter.holders.rows()) {
    if (row.entry->dtype == parameter.dtype) continue;
    throw Error(ErrorKind::kBadInput, "its element type differs between the ranks (" +
                                          differing_words(parameter.holders) + ")")
        .in_file(row.first->source->name())
        .for_parameter(parameter.name)
        .hint("take all files from one save of one training job");
  }
}

/// Packed elements that are cut inside of a byte belong to these files all the same.
std::string hint_for(const Error& error, const SourceParameter& parameter,
                     const Catalogue& catalogue) {
  if (error.kind() != ErrorKind::kUnsupported) return catalogue.hint();
  return "leave it out with --exclude " + shell_word(glob_of(parameter.name));
}

}  // namespace

SourceTable::SourceTable(std::shared_ptr<const CheckpointSet> checkpoint,
                         std::optional<Strategy> strategy, NameGlobs join, const NameTaker& takes)
    : checkpoint_(std::move(checkpoint)) {
  const StatedLayouts stated = stated_layouts(*checkpoint_, std::move(strategy), join);
  catalogue_ = stated.catalogue;
  strategy_ = stated.strategy;
  if (!catalogue_) {
    const std::vector<Error>& missing = checkpoint_->completeness().missing_without_layouts;
    if (!missing.empty()) throw Error(missing.front());
    catalogue_ = std::make_shared<WholeCatalogue>(*checkpoint_, std::move(join), takes);
  }
  require_none_refused(takes);
  require_extents(takes);
  collect_holders();
  const auto grids = std::make_shared<GridPool>();
  for (SourceParameter& parameter : parameters_) {
    require_one_type(parameter);
    try {
      lay_out(parameter, grids);
    } catch (const Error& error) {
      // Errors of parameters that are not wanted are ignored.
      if (!takes || takes(parameter.name) || error.kind() == ErrorKind::kInternal) throw;
    }
  }
  require_names(takes);
}

SourceTable::SourceTable(MappedParameters mapped)
    : checkpoint_(mapped.from->checkpoint_ptr()),
      catalogue_(std::move(mapped.catalogue)),
      mapped_from_(std::move(mapped.from)),
      mapped_names_(std::move(mapped.names)),
      computed_(std::move(mapped.computed)),
      parameters_(std::move(mapped.parameters)) {}

SourceTable::SourceTable(RenamedParameters renamed)
    : checkpoint_(renamed.of->checkpoint_ptr()),
      catalogue_(std::move(renamed.catalogue)),
      strategy_(renamed.strategy),
      renamed_from_(std::move(renamed.of)),
      mapped_names_(std::move(renamed.names)) {
  parameters_.reserve(mapped_names_.size());
  for (std::size_t i = 0; i < mapped_names_.size(); ++i) {
    const SourceParameter& stored = renamed_from_->parameters_[renamed.positions[i]];
    SourceParameter& parameter = parameters_.emplace_back(mapped_names_[i], stored.dtype);
    parameter.holders = stored.holders;
    parameter.layout = stored.layout;
    parameter.grid = stored.grid;
  }
}

const SourceParameter* SourceTable::find(std::string_view name) const {
  sorted_.call([this] {
    by_name_ = order_by_name(parameters_.size(), [this](std::size_t i) -> std::string_view {
      return parameters_[i].name;
    });
  });
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](std::uint32_t i, std::string_view n) { return parameters_[i].name < n; });
  if (found == by_name_.end() || parameters_[*found].name != name) return nullptr;
  return &parameters_[*found];
}

void SourceTable::collect_holders() {
  const std::vector<RankFile>& files = checkpoint_->files();
  std::unordered_map<std::string_view, std::size_t> numbers;  // those of the first ones by name
  /// The parameter's number; a new one if the name is new.
  const auto number_of = [&](const TensorEntry& entry) {
    if (numbers.empty()) numbers.reserve(parameters_.size());
    for (std::size_t i = numbers.size(); i < parameters_.size(); ++i) {
      numbers.emplace(parameters_[i].name, i);
    }
    const auto [found, is_new] = numbers.try_emplace(entry.name, parameters_.size());
    if (is_new) parameters_.emplace_back(entry);
    return found->second;
  };
  const std::span<const RankFile> first_rank = checkpoint_->files_of(files.front().rank);
  const bool first_rank_has_no_boxes =
      std::none_of(first_rank.begin(), first_rank.end(),
                   [](const RankFile& file) { return file.index->has_boxes(); });
  std::size_t names = 0;
  for (const RankFile& file : first_rank) names += file.index->entries().size();
  parameters_.reserve(names);
  for (std::size_t i = 0; i < files.size();) {
    std::size_t count = 1;
    // Runs of several pieces would not be in the order of the ranks.
    const bool one_each = !files[i].index->has_boxes();
    while (one_each && i + count < files.size() && files[i + count].index == files[i].index) {
      ++count;
    }
    // Files of a stage list the same names in the same order: the next name is nearly always the
    // neighbour of the one before. Names of the first rank are all new: its parts share none.
    const bool all_new = one_each && first_rank_has_no_boxes && files[i].rank == files.front().rank;
    std::size_t expected = 0;
    for (const TensorEntry& entry : files[i].index->entries()) {
      const bool is_neighbour =
          expected < parameters_.size() && parameters_[expected].name == entry.name;
      const std::size_t position = all_new        ? parameters_.size()
                                   : is_neighbour ? expected
                                                  : number_of(entry);
      if (all_new) parameters_.emplace_back(entry);
      parameters_[position].holders.add({&files[i], count, &entry});
      expected = position + 1;
    }
    i += count;
  }
  const auto is_left_out = [this](const SourceParameter& parameter) {
    return catalogue_->leaves_out(parameter.name);
  };
  if (std::none_of(parameters_.begin(), parameters_.end(), is_left_out)) return;
  std::vector<SourceParameter> kept;  // they cannot be assigned to each other
  for (SourceParameter& parameter : parameters_) {
    if (!is_left_out(parameter)) kept.push_back(std::move(parameter));
  }
  parameters_.swap(kept);
}

/// All at once, with what shows the others: a user should not find them one by one.
void SourceTable::require_none_refused(const NameTaker& takes) const {
  constexpr std::size_t kShown = 20;
  std::vector<std::pair<std::string, std::string>> refused;
  std::string options;
  for (const RefusedTensor& tensor : checkpoint_->refused()) {
    if (takes && !takes(tensor.name)) continue;
    refused.emplace_back(tensor.name, tensor.reason);
    if (refused.size() <= kShown) options += " --exclude " + shell_word(glob_of(tensor.name));
  }
  if (refused.empty()) return;
  const std::vector<std::string> words = names_by_reason(refused);
  std::string list;
  for (std::size_t i = 0; i < std::min(words.size(), kShown); ++i) {
    list += (i == 0 ? "" : ", ") + words[i];
  }
  if (words.size() > kShown)
    list += " and " + std::to_string(words.size() - kShown) + " more reasons";
  Error error(ErrorKind::kUnsupported,
              counted(refused.size(), "tensor") + " cannot be shown: " + list);
  error.in_file(checkpoint_->root().string());
  const auto& files = checkpoint_->files();
  const bool has_others = std::any_of(files.begin(), files.end(), [&](const RankFile& file) {
    const auto& entries = file.index->entries();
    return std::any_of(entries.begin(), entries.end(),
                       [&](const TensorEntry& entry) { return !takes || takes(entry.name); });
  });
  if (has_others && refused.size() <= kShown) error.hint("the others are shown with" + options);
  if (has_others && refused.size() > kShown) {
    error.hint("the others are shown with --exclude of each, or --include of those");
  }
  throw error;
}

/// Names all parameters that lack rows in one message.
void SourceTable::require_extents(const NameTaker& takes) const {
  std::optional<Error> first;
  std::vector<std::string> others;
  for (const Error& error : checkpoint_->completeness().short_parameters) {
    if (takes && !takes(error.parameter())) continue;
    if (first) {
      others.push_back(error.parameter());
    } else {
      first = error;
    }
  }
  if (!first) return;
  if (!others.empty()) first->explain("; rows of " + name_list(others, 20) + " are missing, too");
  throw first->in_file(checkpoint_->root().string());
}

/// What the checkpoint says that it has, but no file of it.
void SourceTable::require_names(const NameTaker& takes) const {
  std::vector<std::string> lost;
  for (std::string& name : catalogue_->required_names()) {
    if (find(name) == nullptr && (!takes || takes(name))) lost.push_back(std::move(name));
  }
  if (lost.empty()) return;
  throw Error(ErrorKind::kMissing,
              "no file has " + name_list(lost, 20) + ", which the checkpoint should have")
      .in_file(checkpoint_->root().string())
      .for_parameter(lost.front())
      .hint("bring the missing files, or leave the parameters out with --exclude");
}

Holders SourceTable::holders_in_stage(const SourceParameter& parameter, std::int64_t stage) const {
  return parameter.holders.within(ranks().of_stage(stage));
}

void SourceTable::lay_out(SourceParameter& parameter, const std::shared_ptr<GridPool>& pool) {
  // Text and maps are no arrays: they cannot be cut, and follow the rules for parameters without a
  // layout.
  if (parameter.dtype == DType::kMap) require_uncut(parameter);
  if (!is_array(parameter.dtype)) return;
  try {
    if (const auto boxes = catalogue_->boxes(parameter.name, parameter.holders)) {
      parameter.grid = make_grid(parameter, *boxes);
      return;
    }
    const auto placements = catalogue_->placements(parameter.name, parameter.holders);
    if (!placements.empty()) {
      parameter.grid = make_grid(parameter, placements.front(), pool);
      parameter.layout = placements.front().layout;
      return;
    }
  } catch (Error& error) {
    throw error.for_parameter(parameter.name);
  }
  if (catalogue_->layouts_of(parameter.name).empty()) return;
  std::vector<Rank> ranks;
  for (const Holding& h : parameter.holders) ranks.push_back(h.file->rank);
  throw Error(ErrorKind::kBadInput,
              "the source strategy lays it out in another pipeline stage than that of rank " +
                  format_rank_list(ranks) + ", where it is")
      .in_file(parameter.holders.front().file->source->name())
      .for_parameter(parameter.name)
      .hint(catalogue_->hint());
}

/// A map's keys are spread over the ranks by their hash: no layout says which are where.
void SourceTable::require_uncut(const SourceParameter& parameter) const {
  for (const Layout* layout : catalogue_->layouts_of(parameter.name)) {
    const bool cut = layout->optimizer_shard_size != 0 ||
                     std::any_of(layout->tensor_map.begin(), layout->tensor_map.end(),
                                 [](const auto& axes) { return !axes.empty(); });
    if (!cut) continue;
    throw Error(ErrorKind::kUnsupported,
                "is a map parameter (maptensor) that the source strategy cuts (" +
                    to_string(*layout) + "); maps can only be carried over whole")
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
  if (!states_layouts()) return parameter.holders;
  return holders_in_stage(parameter, ranks().stage_of(parameter.holders.front().file->rank));
}

bool SourceTable::compare_ranks(const SourceParameter& parameter) const {
  // No file has the tensor that the map makes, but its grid knows which ranks have equal slices.
  if (mapped_from_) return are_replicas_equal(*parameter.grid);
  Holding stage_first;
  std::optional<std::int64_t> stage;
  for (const Holding& holder : parameter.holders) {
    const std::int64_t own = ranks().stage_of(holder.file->rank);
    const bool compare = states_layouts() ? own == stage : bool(stage_first);
    if (compare && !content_equal(stage_first, holder)) return false;
    if (!compare) stage_first = holder;
    stage = own;
  }
  return true;
}

CellGridPtr SourceTable::make_grid(const SourceParameter& parameter,
                                   const SlicePlacement& placement,
                                   const std::shared_ptr<GridPool>& pool) const {
  const Holding first = placement.holders.front();
  try {
    const auto arranged = arrangements_.find_or_make(placement);
    require_countable(arranged->pattern->full_shape, parameter.dtype);
    // An arrangement that is shared is one of files with a single index.
    if (placement.holders.rows().size() == 1) {
      if (pool) return {pool, &pool->emplace_back(arranged->pattern, *first.entry)};
      return std::make_shared<const CellGrid>(arranged->pattern, *first.entry);
    }
    return std::make_shared<const CellGrid>(arranged->pattern, arranged->entries);
  } catch (Error& error) {
    throw Error(ErrorKind::kBadInput, error.message() + " (slice " + to_string(first.entry->shape) +
                                          "; source: " + to_string(*placement.layout) + ")")
        .in_file(error.file().empty() ? first.file->source->name() : error.file())
        .for_parameter(parameter.name)
        .hint(hint_for(error, parameter, *catalogue_));
  }
}

CellGridPtr SourceTable::make_grid(const SourceParameter& parameter,
                                   const BoxPlacement& placement) {
  try {
    return box_grids_.make(placement, *parameter.holders.front().entry);
  } catch (Error& error) {
    throw error.hint(hint_for(error, parameter, *catalogue_));
  }
}

CellGridPtr SourceTable::grid_like(const SourceParameter& parameter,
                                   const SourceParameter& like) const {
  if (!states_layouts() || !like.layout || !like.grid || !is_array(parameter.dtype)) {
    return nullptr;
  }
  for (const Holders::Row& row : parameter.holders.rows()) {
    const TensorEntry* twin = row.first->index->find(like.name);
    // The files of a row have one index. What is not in it may be in another part of each rank.
    const std::size_t count = twin == nullptr ? row.count : 1;
    for (std::size_t i = 0; i < count; ++i) {
      for (const RankFile& file : checkpoint_->files_of(row.first[i].rank)) {
        if (twin == nullptr) twin = file.index->find(like.name);
      }
      if (twin == nullptr || twin->shape != row.entry->shape) return nullptr;
      if (count > 1) twin = nullptr;
    }
  }
  const auto placements = catalogue_->placements(like.name, parameter.holders);
  return placements.empty() ? nullptr : make_grid(parameter, placements.front(), nullptr);
}

}  // namespace reshardfs
