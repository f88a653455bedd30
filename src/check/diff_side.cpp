// SPDX-License-Identifier: Apache-2.0
#include "check/diff_side.h"

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "plan/target_table.h"
#include "view/strategy_input.h"

namespace reshardfs {

DiffSide DiffSide::open(const DiffSource& source) {
  StrategyInput strategy(source.strategy);
  CheckpointOptions options{source.pattern, source.step, false, nullptr};
  options.no_symlinks = source.no_symlinks;
  options.decryption = Decryption::load_if_named(source.dec_key_file, source.dec_mode);
  auto set = std::make_shared<const CheckpointSet>(CheckpointSet::open(source.path, options));
  auto laid_out = strategy.for_source(*set);
  return DiffSide(std::make_shared<const SourceTable>(set, std::move(laid_out), source.join));
}

ShardGridPtr DiffSide::laid_out(const SourceParameter& parameter) const {
  if (parameter.grid) return parameter.grid;
  const SourceParameter* weight = table_->find(weight_of(parameter.name));
  return weight == nullptr ? nullptr : table_->grid_like(parameter, *weight);
}

ShardGridPtr DiffSide::find_grid(const SourceParameter& parameter) const {
  if (ShardGridPtr grid = laid_out(parameter)) return grid;
  if (!table_->equal_on_all_ranks(parameter)) return nullptr;
  return single_cell_grid(parameter.holders.front());
}

ShardGridPtr DiffSide::whole(const SourceParameter& parameter) const {
  ShardGridPtr grid = find_grid(parameter);
  if (grid) require_complete(parameter, *grid);
  return grid;
}

void DiffSide::require_complete(const SourceParameter& parameter, const ShardGrid& grid) const {
  if (grid.complete()) return;
  std::vector<std::int64_t> missing;
  const std::int64_t count = table_->stage_count() * table_->stage_devices();
  for (std::int64_t rank = table_->base_rank(); rank < table_->base_rank() + count; ++rank) {
    if (table_->checkpoint().find(rank) == nullptr) missing.push_back(rank);
  }
  throw Error(ErrorKind::kMissing, missing.empty()
                                       ? "no rank holds a part of it"
                                       : "rank " + format_rank_list(missing) +
                                             " is missing, and no other rank holds its part")
      .in_file(table_->checkpoint().files().front().path.parent_path().parent_path())
      .for_parameter(parameter.name)
      .hint("bring the missing files, or leave it out with --exclude");
}

}  // namespace reshardfs
