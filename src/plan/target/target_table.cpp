// SPDX-License-Identifier: Apache-2.0
#include "plan/target/target_table.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/name_groups.h"
#include "base/text/name_order.h"
#include "base/text/shell_text.h"
#include "base/text/state_names.h"
#include "base/text/text.h"
#include "layout/fold.h"
#include "layout/slicing.h"
#include "plan/source/absent_names.h"
#include "plan/source/packed_units.h"

namespace reshardfs {
namespace {

/// Comparing without being asked to must stay cheap: beyond this, `--unmatched source` takes the
/// rank's slice as it is told to.
constexpr std::uint64_t kCheapCompareBytes = 1 << 20;

/// "3 parameters (a, b, c)", at most five names.
std::string parameter_list(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string out =
      std::to_string(names.size()) + (names.size() == 1 ? " parameter (" : " parameters (");
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    out += (i == 0 ? "" : ", ") + printable(names[i]);
  }
  return out + (names.size() > kShown ? ", ...)" : ")");
}

/// How the source has it, for messages.
std::string source_words(const Layout* layout, const CellGrid& grid) {
  if (layout != nullptr) return to_string(*layout);
  return grid.boxes() == nullptr ? "no layout" : boxes_text(grid);
}

}  // namespace

/// Names by what became of them, for one line each.
struct TargetTable::Verdicts {
  std::vector<std::string> dropped;     ///< in one strategy only
  std::vector<std::string> refused;     ///< in one strategy only, and not to be guessed
  std::vector<std::string> differing;   ///< in neither, and not equal on all ranks
  std::vector<std::string> following;   ///< in neither, laid out like their weight
  std::vector<std::string> no_weights;  ///< left out, where only weights are wanted
};

TargetTable::TargetTable(std::shared_ptr<const SourceTable> source,
                         std::optional<Strategy> strategy, const TargetOptions& options)
    : source_(std::move(source)),
      strategy_(std::move(strategy)),
      unmatched_(options.unmatched),
      name_map_(options.name_map),
      state_prefixes_(options.state_prefixes),
      casts_(options.casts),
      source_has_rules_(options.source_has_rules),
      target_lists_names_(options.target_lists_names),
      replicas_(options.replicas) {
  Verdicts verdicts;
  parameters_.reserve(source_->parameters().size());
  NameFilter with_states = options.names;
  with_states.weights_only = false;
  for (const SourceParameter& parameter : source_->parameters()) {
    if (takes(options.names, name_map_, parameter.name)) {
      place(parameter, verdicts);
    } else if (takes(with_states, name_map_, parameter.name)) {
      verdicts.no_weights.push_back(parameter.name);
    }
  }
  report(verdicts);
  find_absent(options);
  require_distinct_names();
  if (parameters_.empty()) {
    throw Error(ErrorKind::kBadInput, "no parameter of the checkpoint is left to show")
        .in_file(source_->checkpoint().files().front().source->name())
        .hint("check --include, --exclude and that both strategies belong to this model");
  }
}

std::int64_t TargetTable::rank_count() const noexcept {
  return strategy_ ? strategy_->rank_count() : 1;
}

std::size_t TargetTable::stage_of(Rank rank) const noexcept {
  return strategy_ ? static_cast<std::size_t>(rank.number() / strategy_->devices_per_stage()) : 0;
}

std::int64_t TargetTable::device_of(Rank rank) const noexcept {
  return strategy_ ? rank.number() % strategy_->devices_per_stage() : 0;
}

void TargetTable::place(const SourceParameter& parameter, Verdicts& verdicts) {
  const bool in_target = strategy_ && strategy_->contains(name_map_.target(parameter.name));
  if (source_->states_layouts()) {
    const bool in_source = parameter.grid != nullptr;
    // Without a destination strategy every parameter is whole, and none can be missing in it.
    // Texts have a grid through a map alone, and cannot be cut.
    if (in_source && !is_array(parameter.dtype)) {
      return keep(parameter, parameter.grid, Copies::kUncompared);
    }
    if (in_source && (in_target || !strategy_)) {
      return add_resharded(parameter, parameter.grid, name_map_.target(parameter.name));
    }
    if (in_source && !in_target && source_->catalogue().states_whole(parameter.name)) {
      return keep(parameter, parameter.grid, Copies::kUncompared);
    }
    const bool uncut = source_has_rules_ && in_source && parameter.grid->cell_count() == 1;
    if (uncut && !in_target) return place_without_layout(parameter, verdicts);
    // Through a map every tensor is laid out, states too, which strategies may leave out.
    if (source_->mapped_from() != nullptr && follow_weight(parameter, verdicts)) return;
    if (in_source || in_target) return place_in_one_strategy(parameter, verdicts);
    return place_without_layout(parameter, verdicts);
  }
  if (parameter.grid && (in_target || !strategy_)) {
    return add_resharded(parameter, parameter.grid, name_map_.target(parameter.name));
  }
  place_without_layout(parameter, verdicts);
}

void TargetTable::place_in_one_strategy(const SourceParameter& parameter, Verdicts& verdicts) {
  switch (unmatched_) {
    case Unmatched::kDrop:
      verdicts.dropped.push_back(parameter.name);
      return;
    case Unmatched::kError:
      verdicts.refused.push_back(parameter.name);
      return;
    case Unmatched::kSource:
      return place_raw(parameter);
    case Unmatched::kReplicate:
      if (parameter.grid) {
        add({&parameter, name_map_.target(parameter.name), Treatment::kKeep, parameter.dtype,
             Copies::kUncompared, parameter.grid, nullptr});
      } else if (!keep_if_equal(parameter) && !keep_differing(parameter)) {
        verdicts.refused.push_back(parameter.name);
      }
  }
}

void TargetTable::place_without_layout(const SourceParameter& parameter, Verdicts& verdicts) {
  if (unmatched_ == Unmatched::kSource) return place_raw(parameter);
  if (follow_weight(parameter, verdicts)) return;
  if (keep_if_equal(parameter) || keep_differing(parameter)) return;
  verdicts.differing.push_back(parameter.name);
}

/// An optimizer state that strategies leave out (they hold trainable parameters alone by default)
/// is cut like its weight.
bool TargetTable::follow_weight(const SourceParameter& parameter, Verdicts& verdicts) {
  const std::string weight = weight_of(parameter.name, state_prefixes_);
  if (weight.empty()) return false;
  const SourceParameter* like = source_->find(weight);
  const bool is_laid_out =
      like != nullptr && (like->layout != nullptr || source_->mapped_from() != nullptr);
  if (!is_laid_out) return false;
  const std::string& weight_target = name_map_.target(weight);
  if (strategy_ && !strategy_->contains(weight_target)) return false;
  CellGridPtr grid = source_->states_layouts() && source_->mapped_from() == nullptr
                         ? source_->grid_like(parameter, *like)
                         : parameter.grid;
  if (!grid || grid->full_shape() != like->grid->full_shape()) return false;
  add_resharded(parameter, std::move(grid), weight_target);
  verdicts.following.push_back(parameter.name);
  return true;
}

/// Keeps a parameter whose bytes are the same on all ranks of each stage that holds it; the lowest
/// stage's value counts.
bool TargetTable::keep_if_equal(const SourceParameter& parameter) {
  if (!source_->equal_on_all_ranks(parameter)) return false;
  keep(parameter, single_cell_grid(source_->compared_holders(parameter)), Copies::kEqual);
  return true;
}

/// Keeps what every rank has its own values of, if the user says which are to be taken. Values of
/// other sizes are no such.
bool TargetTable::keep_differing(const SourceParameter& parameter) {
  if (replicas_ == Replicas::kSame) return false;
  const Holding first = parameter.holders.front();
  const bool own_text = replicas_ == Replicas::kOwn && !is_array(parameter.dtype);
  const bool one_size =
      std::all_of(parameter.holders.begin(), parameter.holders.end(), [&](const Holding& holder) {
        return array_shape(*holder.entry) == array_shape(*first.entry);
      });
  if (own_text || !one_size) return false;
  keep(parameter, single_cell_grid(first), Copies::kDifferent);
  return true;
}

void TargetTable::keep(const SourceParameter& parameter, CellGridPtr grid, Copies copies) {
  const std::string& name = name_map_.target(parameter.name);
  add({&parameter, name, Treatment::kKeep, parameter.dtype, copies, std::move(grid),
       stages_with(name)});
}

void TargetTable::add_resharded(const SourceParameter& parameter, CellGridPtr grid,
                                const std::string& layout_name) {
  TargetParameter target{&parameter,
                         name_map_.target(parameter.name),
                         Treatment::kReshard,
                         parameter.dtype,
                         Copies::kUncompared,
                         std::move(grid),
                         nullptr};
  const Shape& full = target.grid->full_shape();
  TargetParameter::Cuts cuts;
  if (!strategy_) {
    cuts.push_back(slicing(nullptr, full));
    target.stages = keep_stages({std::move(cuts), {}});
    add(std::move(target));
    return;
  }
  for (std::int64_t stage = 0; stage < strategy_->stage_count(); ++stage) {
    const StageLayouts& layouts = strategy_->stage(stage);
    const auto found = layouts.find(layout_name);
    if (found == layouts.end()) {
      cuts.push_back(nullptr);
      continue;
    }
    try {
      cuts.push_back(slicing(&found->second, full));
      if (is_packed(parameter.dtype)) {
        PackedUnits(full, parameter.dtype).of(cuts.back()->partitions());
      }
    } catch (Error& error) {
      const SourceParameter* like = source_->find(weight_of(parameter.name, state_prefixes_));
      const Layout* from =
          parameter.layout != nullptr || like == nullptr ? parameter.layout : like->layout;
      const std::string shape = to_string(full);
      const bool is_told = error.message().find(shape) != std::string::npos;
      throw Error(ErrorKind::kBadInput, "the target strategy does not fit: " + error.message() +
                                            " (" + (is_told ? "" : "shape " + shape + "; ") +
                                            "source: " + source_words(from, *target.grid) +
                                            "; target: " + to_string(found->second) + ")")
          .for_parameter(parameter.name)
          .hint(found->second.optimizer_shard_size == 0
                    ? ""
                    : "the target cuts by optimizer parallelism, too, as the source does: opt=off "
                      "in the sizes of --dst-strategy leaves that out")
          .hint(error.kind() == ErrorKind::kUnsupported
                    ? "cut it elsewhere, or leave it out with --exclude " +
                          shell_word(glob_of(parameter.name))
                    : "check that --dst-strategy belongs to this model");
    }
  }
  target.stages = keep_stages({std::move(cuts), {}});
  add(std::move(target));
}

/// @param layout nullptr: the whole tensor.
std::shared_ptr<const Slicing> TargetTable::slicing(const Layout* layout, const Shape& full) {
  // Models have few kinds of parameters; where there are more, each has a cut of its own.
  constexpr std::size_t kMostKinds = 256;
  for (const KnownSlicing& known : slicings_) {
    const bool same_layout =
        layout == nullptr ? !known.layout : known.layout && *known.layout == *layout;
    if (same_layout && known.slicing->full_shape() == full) return known.slicing;
  }
  auto made = layout == nullptr ? std::make_shared<const Slicing>(Slicing::whole(full))
                                : std::make_shared<const Slicing>(
                                      fold_expanded(*layout, full, /*is_slice=*/false), full);
  if (slicings_.size() < kMostKinds) {
    slicings_.push_back({layout == nullptr ? std::nullopt : std::optional(*layout), made});
  }
  return made;
}

/// The slice of "its" source rank. Where all ranks have the same bytes, the lowest serves them all,
/// so that fewer source files are needed.
void TargetTable::place_raw(const SourceParameter& parameter) {
  const bool is_no_slice =
      parameter.grid && (parameter.grid->boxes() != nullptr || parameter.grid->mapped() != nullptr);
  if (is_no_slice) return place_without_slices(parameter);
  const bool cheap = parameter.holders.front().entry->content_bytes <= kCheapCompareBytes;
  if (cheap && keep_if_equal(parameter)) return;
  const std::string& name = name_map_.target(parameter.name);
  add({&parameter, name, Treatment::kRaw, parameter.dtype, Copies::kUncompared, nullptr,
       stages_with(name)});
}

/// Boxes are anywhere: a file may have several or none, and none is a rank's slice. Of what a map
/// makes no file has any.
void TargetTable::place_without_slices(const SourceParameter& parameter) {
  if (parameter.grid->cell_count() == 1)
    return keep(parameter, parameter.grid, Copies::kUncompared);
  throw Error(
      ErrorKind::kUnsupported,
      "is in only one of the two strategies, and " +
          std::string(parameter.grid->boxes() != nullptr ? "stored in boxes" : "made by the map") +
          ": there is no slice of a source rank that --unmatched source could copy")
      .for_parameter(parameter.name)
      .hint("--unmatched replicate gives every rank the full tensor, --exclude leaves it out");
}

/// Int4 is held as one int8 an element: see holds_int4().
void TargetTable::add(TargetParameter parameter) {
  if (parameter.dtype == DType::kInt4) parameter.dtype = DType::kInt8;
  const DType before = parameter.dtype;
  parameter.dtype = casts_.target(parameter.name, before);
  if (parameter.dtype != before) ++cast_count_;
  parameters_.push_back(std::move(parameter));
}

/// The destination stages that lay `name` out; nullptr (all stages) if none does.
const TargetParameter::Stages* TargetTable::stages_with(const std::string& name) {
  if (!strategy_ || !strategy_->contains(name)) return nullptr;
  std::vector<bool> has(static_cast<std::size_t>(strategy_->stage_count()), false);
  for (const std::int64_t stage : strategy_->stages_of(name)) {
    has[static_cast<std::size_t>(stage)] = true;
  }
  return keep_stages({{}, std::move(has)});
}

const TargetParameter::Stages* TargetTable::keep_stages(TargetParameter::Stages stages) {
  auto kept = share_equal(stage_kinds_, std::move(stages));
  const TargetParameter::Stages* const shared = kept.get();
  if (kept.use_count() == 1) other_stages_.push_back(std::move(kept));
  return shared;
}

void TargetTable::report(const Verdicts& verdicts) {
  if (!verdicts.refused.empty()) {
    throw Error(ErrorKind::kBadInput, parameter_list(verdicts.refused) +
                                          " of the checkpoint are in only one of the two "
                                          "strategies")
        .hint(
            "--unmatched drop leaves them out, --unmatched source copies the slices of the "
            "source rank, --unmatched replicate gives every rank the full tensor where the "
            "source strategy has a layout");
  }
  if (!verdicts.differing.empty()) {
    throw Error(ErrorKind::kBadInput, parameter_list(verdicts.differing) +
                                          " of the checkpoint are in neither strategy and differ "
                                          "between the ranks: each rank has its own values, as of "
                                          "moving_mean, or a slice")
        .hint(
            "for such values, --replicas first takes the lowest rank's, and --replicas own each "
            "rank's; "
            "for slices, give strategies that have them, or copy them with --unmatched source; "
            "--exclude leaves them out");
  }
  const bool any_resharded = std::any_of(
      parameters_.begin(), parameters_.end(),
      [](const TargetParameter& parameter) { return parameter.treatment == Treatment::kReshard; });
  if (!verdicts.dropped.empty() && !any_resharded) {
    throw Error(ErrorKind::kBadInput, "no parameter of the checkpoint is in both strategies: " +
                                          parameter_list(verdicts.dropped) + " in only one of them")
        .hint("check that both strategies belong to this model");
  }
  if (!verdicts.dropped.empty()) {
    warnings_.push_back("left out: " + parameter_list(verdicts.dropped) +
                        " in only one of the two strategies; see --unmatched");
  }
  if (!verdicts.following.empty()) {
    notes_.push_back("cut like their weights: " + parameter_list(verdicts.following));
  }
  if (!verdicts.no_weights.empty()) {
    notes_.push_back("left out by --weights-only: " + parameter_list(verdicts.no_weights));
  }
}

/// A job need not save all that its strategy lists, such as states of an optimizer. What is lost
/// with its files is another thing, see lost_on().
void TargetTable::find_absent(const TargetOptions& options) {
  // Rules lay out what they do not mention, too.
  AbsentNames absent = absent_names(*source_, target_lists_names_ ? strategy_ : std::nullopt,
                                    name_map_, options.names);
  lost_ = std::move(absent.lost);
  if (options.source_has_rules) unknown_ranks_ = ranks_of_lost_stages(*source_);
  std::vector<std::string> states;
  std::vector<std::string> weights;
  for (std::string& name : absent.unsaved) {
    (is_training_state(name, state_prefixes_) ? states : weights).push_back(std::move(name));
  }
  const auto line = [](const std::vector<std::string>& names) {
    return "a strategy lists " + counted(names.size(), "parameter") +
           " that the checkpoint does not have: " + name_list(group_names(names));
  };
  if (!weights.empty()) warnings_.push_back(line(weights));
  if (!states.empty()) notes_.push_back(line(states));
}

}  // namespace reshardfs
