// SPDX-License-Identifier: Apache-2.0
#include "check/diff_side.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/state_names.h"
#include "checkpoint/completeness.h"
#include "conversion/map_copies.h"
#include "conversion/model_maps.h"
#include "conversion/source_input.h"
#include "conversion/unmatched_selectors.h"
#include "plan/replicas/content_equal.h"
#include "plan/replicas/replica_check.h"
#include "plan/replicas/settle_replicas.h"
#include "plan/target/name_map.h"

namespace reshardfs {

CheckpointOptions set_options(const DiffSource& source) {
  CheckpointOptions options{source.pattern, source.step, false, nullptr};
  options.no_symlinks = source.no_symlinks;
  options.prefix = source.prefix;
  options.prefix_option = source.prefix_option;
  options.state_key = source.state_key;
  options.state_key_option = source.state_key_option;
  options.dequantize = source.dequantize;
  options.decryption = Decryption::load_if_named(source.dec_key_file, source.dec_mode);
  return options;
}

namespace {

std::shared_ptr<const CheckpointSet> open_set(const DiffSource& source) {
  return std::make_shared<const CheckpointSet>(
      CheckpointSet::open(source.path, set_options(source)));
}

std::filesystem::path linkless_root(const DiffSource& source) {
  return source.no_symlinks ? source.path : "";
}

StrategyInput strategy_of(const DiffSource& source) {
  StrategyInput strategy(source.strategy, {}, linkless_root(source));
  strategy.allow_unmatched(source.allow_unmatched);
  return strategy;
}

/// @throws Error kUsage for patterns of slices to join that match none of the set's names.
void check_join(const DiffSource& source, const CheckpointSet& set,
                std::vector<std::string>& warnings) {
  if (source.join.empty()) return;
  UnmatchedOptions unmatched;
  unmatched.add_globs("--src-join", source.join, names_in(set));
  unmatched.settle(source.allow_unmatched, warnings);
}

MappedSourceOptions mapped_options(const DiffSource& source) {
  MappedSourceOptions options;
  if (source.weights_only) {
    options.leaves_out = [](const std::string& name) { return is_training_state(name); };
  }
  return options;
}

/// Which names of the source need a layout. Through a map other tensors may need what has the name
/// that is not wanted.
NameTaker needed(const ModelMaps& maps, const NameTaker& takes) {
  return maps.empty() ? takes : NameTaker();
}

}  // namespace

DiffSide DiffSide::open(const DiffSource& source, std::shared_ptr<const CheckpointSet> set,
                        const NameTaker& takes) {
  const ModelMaps maps(source.maps, source.path, linkless_root(source));
  StrategyInput strategy = strategy_of(source);
  if (!set) set = open_set(source);
  std::vector<std::string> warnings;
  check_join(source, *set, warnings);
  std::optional<Strategy> laid_out = strategy.for_source(*set, needed(maps, takes));
  for (std::string& line : strategy.take_warnings()) warnings.push_back(std::move(line));
  auto table =
      std::make_shared<const SourceTable>(std::move(set), std::move(laid_out), source.join);
  MappedSourceOptions mapped = mapped_options(source);
  mapped.compares_ranks = false;
  mapped.wants = takes;
  DiffSide side(maps.apply(std::move(table), {}, mapped).table);
  side.notes_ = maps.notes();
  side.warnings_ = std::move(warnings);
  return side;
}

DiffSide DiffSide::open_checked(const DiffSource& source, const NameTaker& takes) {
  const ModelMaps maps(source.maps, source.path, linkless_root(source));
  maps.require_shared_values(source.replicas);
  StrategyInput strategy = strategy_of(source);
  const NameTaker wanted = needed(maps, takes);
  std::shared_ptr<const CheckpointSet> set = open_set(source);
  std::vector<std::string> warnings;
  check_join(source, *set, warnings);
  SourceTableResult opened = source_table(set, strategy, {source.join, wanted, {}});
  MappedSourceOptions mapped = mapped_options(source);
  mapped.wants = takes;
  const ModelMaps::Result shown = maps.apply(std::move(opened.table), {}, mapped);
  const std::vector<std::string> differing = check_map_copies(maps, shown, mapped, source.replicas);
  DiffSide side(shown.table, source.replicas);
  side.warnings_ = std::move(warnings);
  for (const auto& lines :
       {warnings_of(side.table().checkpoint().completeness(), wanted), opened.unmatched,
        side.table().catalogue().warnings(), opened.warnings, differing}) {
    side.warnings_.insert(side.warnings_.end(), lines.begin(), lines.end());
  }
  side.notes_ = maps.notes();
  side.check_replicas(takes);
  return side;
}

/// Under kOwn all bytes of all ranks are compared later.
void DiffSide::check_replicas(const NameTaker& takes) {
  if (replicas_ == Replicas::kOwn) return;
  std::vector<ReplicatedParameter> stated;
  std::set<const SourceParameter*> differing;
  for (const SourceParameter& parameter : table_->parameters()) {
    if (!takes(parameter.name)) continue;
    if (const CellGridPtr grid = laid_out(parameter)) {
      stated.push_back({&parameter, grid});
    } else if (replicas_ == Replicas::kFirst && !table_->equal_on_all_ranks(parameter)) {
      differing.insert(&parameter);
    }
  }
  const ReplicaFindings findings = reshardfs::check_replicas(*table_, stated);
  if (replicas_ == Replicas::kSame) {
    if (!findings.differing.empty()) {
      refuse_replicas(findings.differing, *table_);
    }
    return;
  }
  for (const ReplicaDisagreement& found : findings.differing) differing.insert(found.parameter);
  if (!differing.empty()) {
    warnings_.push_back(lowest_rank_warning({differing.begin(), differing.end()}));
  }
}

CellGridPtr DiffSide::laid_out(const SourceParameter& parameter) const {
  if (parameter.grid) return parameter.grid;
  const SourceParameter* weight = table_->find(weight_of(parameter.name));
  return weight == nullptr ? nullptr : table_->grid_like(parameter, *weight);
}

CellGridPtr DiffSide::find_grid(const SourceParameter& parameter) const {
  const CellGridPtr grid = laid_out(parameter);
  if (grid && replicas_ != Replicas::kOwn) {
    return replicas_ == Replicas::kSame ? grid : grid->without_stand_ins();
  }
  // A cut parameter has replicas of each slice; of others every rank has a copy.
  const bool has_replicas = grid && (grid->cell_count() > 1 || grid->boxes() != nullptr ||
                                     table_->mapped_from() != nullptr);
  if (has_replicas) return are_replicas_equal(*grid) ? grid : nullptr;
  if (table_->equal_on_all_ranks(parameter)) {
    return grid ? grid : single_cell_grid(parameter.holders.front());
  }
  const bool first = replicas_ == Replicas::kFirst && has_one_shape(parameter.holders);
  return first ? single_cell_grid(parameter.holders.front()) : nullptr;
}

CellGridPtr DiffSide::whole(const SourceParameter& parameter) const {
  CellGridPtr grid = find_grid(parameter);
  if (grid) require_complete(parameter, *grid);
  return grid;
}

void DiffSide::require_complete(const SourceParameter& parameter, const CellGrid& grid) const {
  if (grid.complete()) return;
  const std::vector<Rank> missing = table_->missing_ranks();
  throw Error(ErrorKind::kMissing, missing.empty()
                                       ? "no rank holds a part of it"
                                       : "rank " + format_rank_list(missing) +
                                             " is missing, and no other rank holds its part")
      .in_file(table_->checkpoint().root().string())
      .for_parameter(parameter.name)
      .hint("bring the missing files, or leave it out with --exclude");
}

}  // namespace reshardfs
