// SPDX-License-Identifier: Apache-2.0
#include "check/diff_side.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/state_names.h"
#include "conversion/map_copies.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "plan/replicas/replica_check.h"
#include "plan/replicas/settle_replicas.h"
#include "plan/replicas/step_counters.h"
#include "plan/target/name_map.h"

namespace reshardfs {

namespace {

MappedSourceOptions mapped_options(const SourceOpening& opening, const DiffSide::Wanted& wanted) {
  MappedSourceOptions options = opening.mapped_options(wanted.weights_only);
  options.wants = wanted.takes;
  return options;
}

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

}  // namespace

DiffSide DiffSide::open(const SourceRequest& request, const Wanted& wanted,
                        std::shared_ptr<const CheckpointSet> set) {
  SourceOpening opening(request);
  set ? opening.take_set(std::move(set)) : static_cast<void>(opening.open_set());
  std::vector<std::string> warnings = opening.unmatched_warnings();
  DiffSide side = open(request, wanted, opening);
  append(warnings, side.warnings_);
  side.warnings_ = std::move(warnings);
  return side;
}

DiffSide DiffSide::open(const SourceRequest& request, const Wanted& wanted,
                        SourceOpening& opening) {
  SourceTableResult opened = opening.lay_out_unread(opening.needed(wanted.takes));
  MappedSourceOptions mapped = mapped_options(opening, wanted);
  mapped.compares_ranks = false;
  compare_mapped_ranks(*opened.table, opening.maps(), request.replicas);
  DiffSide side(opening.maps().apply(std::move(opened.table), {}, mapped).table, request);
  side.notes_ = opening.maps().notes();
  side.warnings_ = std::move(opened.unmatched);
  return side;
}

DiffSide DiffSide::open_checked(const SourceRequest& request, const Wanted& wanted) {
  SourceOpening opening(request);
  opening.open_set();
  std::vector<std::string> warnings = opening.unmatched_warnings();
  const NameTaker needed = opening.needed(wanted.takes);
  SourceTableResult opened = opening.lay_out(needed);
  ModelQuestion question = model_question(request, *opening.set(), opening.tree());
  question.table = opened.table.get();
  question.takes = needed;
  const std::vector<std::string> lacking = model_warnings(question);
  if (request.replicas == Replicas::kSame) require_one_step(*opened.table, needed);
  const MappedSourceOptions mapped = mapped_options(opening, wanted);
  const auto ranks = compare_mapped_ranks(*opened.table, opening.maps(), request.replicas);
  const ModelMaps::Result shown = opening.maps().apply(std::move(opened.table), {}, mapped);
  std::vector<std::string> differing = settle_mapped_ranks(ranks, shown, mapped, request.replicas);
  append(differing, check_map_copies(opening.maps(), shown, mapped, request.replicas));
  DiffSide side(shown.table, request);
  side.warnings_ = std::move(warnings);
  append(side.warnings_, lacking);
  append(side.warnings_, opened.unmatched);
  append(side.warnings_, side.table().catalogue().warnings());
  append(side.warnings_, opened.warnings);
  append(side.warnings_, differing);
  side.notes_ = opening.maps().notes();
  side.check_replicas(wanted.takes);
  return side;
}

/// Under kOwn all bytes of all ranks are compared later.
void DiffSide::check_replicas(const NameTaker& takes) {
  if (replicas_ == Replicas::kOwn) return;
  std::vector<ReplicatedParameter> stated;
  std::set<const SourceParameter*> differing;
  for (const SourceParameter& parameter : table_->parameters()) {
    if (takes && !takes(parameter.name)) continue;
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
  const SourceParameter* weight = table_->find(weight_of(parameter.name, state_prefixes_));
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
