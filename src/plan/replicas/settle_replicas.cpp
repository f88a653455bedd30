// SPDX-License-Identifier: Apache-2.0
#include "plan/replicas/settle_replicas.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/shell_text.h"
#include "base/text/text.h"

namespace reshardfs {

/// Without a strategy the source's ranks are numbered as their files are.
Rank TargetTable::own_source_rank(Rank rank) const {
  return source_->states_layouts() ? source_->ranks().all().first() + rank.number() : rank;
}

Holding TargetTable::own_holding(const TargetParameter& parameter, Rank rank) const {
  const Holding shared = shared_view(parameter, rank).whole_cell();
  if (!shared) return {};
  const Rank wanted = own_source_rank(rank);
  const CellGrid& grid = *parameter.grid;
  if (grid.cell_count() == 1 && grid.boxes() == nullptr) {
    const Holders own = parameter.source->holders.within({wanted, 1});
    const bool fits = !own.empty() && array_shape(*own.front().entry) == grid.full_shape();
    return fits ? own.front() : Holding();
  }
  if (shared.file->rank == wanted) return shared;
  for (std::size_t i = 0; i < grid.replica_count(); ++i) {
    if (grid.pattern().replicas[i].second->rank != wanted) continue;
    const auto [cell, own] = grid.replica_at(i);
    if (grid.cell(cell) == shared) return own;
  }
  return {};
}

void TargetTable::forget_stand_ins(const std::set<const SourceParameter*>& equal) {
  for (TargetParameter& parameter : parameters_) {
    const bool known = parameter.copies != Copies::kUncompared;
    if (!parameter.grid || known || equal.contains(parameter.source)) continue;
    if (parameter.grid->replica_count() == 0) continue;
    parameter.grid = parameter.grid->without_stand_ins();
  }
}

namespace {

using CheckedCells = std::shared_ptr<const std::set<const RankFile*>>;

/// Which cells the shown ranks read. Parameters that are cut alike share the answer.
class ReadCells {
 public:
  ReadCells(const TargetTable& target, const std::vector<Rank>& ranks)
      : target_(target), ranks_(ranks) {}

  CheckedCells of(const TargetParameter& parameter) {
    const Key key{&parameter.grid->pattern(), parameter.stages};
    const auto [found, is_new] = known_.try_emplace(key);
    if (!is_new) return found->second;
    auto cells = std::make_shared<std::set<const RankFile*>>();
    for (const Rank rank : ranks_) {
      if (!target_.has(parameter, rank)) continue;
      target_.shared_view(parameter, rank)
          .for_each_cell(
              [&](const Holding& holding, std::uint64_t) { cells->insert(holding.file); });
    }
    return found->second = std::move(cells);
  }

 private:
  using Key = std::tuple<const void*, const void*>;
  const TargetTable& target_;
  const std::vector<Rank>& ranks_;
  std::map<Key, CheckedCells> known_;
};

/// Parameters that are shown and whose copies were not compared.
std::vector<ReplicatedParameter> uncompared(const ShownTables& shown) {
  std::vector<ReplicatedParameter> list;
  const auto& sources = shown.target.source().parameters();
  std::vector<bool> listed(sources.size());
  const auto add = [&](const TargetParameter& parameter, CheckedCells cells) {
    const bool known = parameter.copies != Copies::kUncompared;
    if (known || !parameter.grid || (cells && cells->empty())) return;
    const auto number = static_cast<std::size_t>(parameter.source - sources.data());
    if (listed[number]) return;
    listed[number] = true;
    list.push_back({parameter.source, parameter.grid, std::move(cells)});
  };
  if (shown.whole != nullptr) {
    for (const TargetParameter& parameter : shown.whole->parameters()) add(parameter, nullptr);
  }
  const bool all = shown.ranks.size() == static_cast<std::size_t>(shown.target.rank_count());
  ReadCells cells(shown.target, shown.ranks);
  for (const TargetParameter& parameter : shown.target.parameters()) {
    if (parameter.grid) add(parameter, all ? nullptr : cells.of(parameter));
  }
  return list;
}

std::string ranks_of(const ReplicaDisagreement& difference) {
  return "rank " + to_string(difference.one.file->rank) + " and rank " +
         to_string(difference.other.file->rank);
}

std::string and_more(std::size_t count) {
  if (count < 2) return "";
  return ", and so " + std::string(count == 2 ? "does 1 more parameter" : "do ") +
         (count == 2 ? "" : std::to_string(count - 1) + " more parameters");
}

/// The parameters of which several values are there, in the order of the checkpoint.
std::vector<const SourceParameter*> differing_parameters(
    const ShownTables& shown, const std::vector<ReplicaDisagreement>& found) {
  std::set<const SourceParameter*> differing;  // they stand side by side in the source table
  for (const ReplicaDisagreement& difference : found) differing.insert(difference.parameter);
  for (const TargetTable* table : {&shown.target, shown.whole}) {
    if (table == nullptr) continue;
    for (const TargetParameter& parameter : table->parameters()) {
      if (parameter.copies == Copies::kDifferent) differing.insert(parameter.source);
    }
  }
  return {differing.begin(), differing.end()};
}

/// Where values differ, a rank whose slice is in several source slices has none of its own.
void require_own(const ShownTables& shown, const std::vector<const SourceParameter*>& differing) {
  for (const TargetParameter& parameter : shown.target.parameters()) {
    const bool differs = std::binary_search(differing.begin(), differing.end(), parameter.source);
    if (!differs || parameter.treatment == Treatment::kRaw) continue;
    for (const Rank rank : shown.ranks) {
      if (!shown.target.has(parameter, rank) || shown.target.own_holding(parameter, rank)) continue;
      throw Error(ErrorKind::kBadInput,
                  "it differs between replicas, and what target rank " + to_string(rank) +
                      " should have is not what source rank " +
                      to_string(shown.target.own_source_rank(rank)) + " holds")
          .for_parameter(parameter.source->name)
          .hint(
              "--replicas own needs a target that cuts it as the source does; --replicas first "
              "takes the lowest rank's");
    }
  }
}

}  // namespace

namespace {

bool is_matrix(const SourceParameter& parameter) {
  return parameter.grid && parameter.grid->full_shape().size() > 1;
}

/// Whether most matrices differ between ranks, and nothing says how any are cut: then a strategy
/// has been forgotten. What differs in data parallel training, such as moving_mean, are vectors.
bool are_slices(const std::vector<ReplicaDisagreement>& differing, const SourceTable& source) {
  std::set<const SourceParameter*> found;
  for (const ReplicaDisagreement& difference : differing) {
    if (is_matrix(*difference.parameter)) found.insert(difference.parameter);
  }
  const auto& all = source.parameters();
  const bool joins_some = std::any_of(all.begin(), all.end(), [](const SourceParameter& parameter) {
    return parameter.grid && parameter.grid->cell_count() > 1;
  });
  if (joins_some) return false;
  const auto matrices = std::count_if(all.begin(), all.end(), is_matrix);
  return 2 * found.size() > static_cast<std::size_t>(matrices);
}

}  // namespace

Error slices_without_strategy(const CheckpointSet& set) {
  const std::string root = set.root().string();
  Error error(ErrorKind::kBadInput,
              "the ranks hold slices, and no strategy says how they were cut");
  error.in_file(root)
      .needs(Need::kSourceStrategy)
      .hint("add --src-strategy FILE, or run: " +
            command_line("strategy guess", {root}, {"-O", "rules.toml"}));
  return error;
}

void refuse_slices(const std::vector<ReplicaDisagreement>& differing, const SourceTable& source) {
  if (source.states_layouts() || !are_slices(differing, source)) return;
  throw slices_without_strategy(source.checkpoint());
}

void refuse_replicas(const std::vector<ReplicaDisagreement>& differing, const SourceTable& source) {
  refuse_slices(differing, source);
  const bool has_strategy = source.states_layouts();
  const ReplicaDisagreement& first = differing.front();
  Error error(
      ErrorKind::kBadInput,
      has_strategy
          ? "it differs between " + ranks_of(first) + and_more(differing.size()) +
                ", though the source strategy calls them replicas: the strategy belongs to another "
                "checkpoint, or replicas have drifted; 'reshardfs verify' compares all of them"
          : "it differs between " + ranks_of(first) + and_more(differing.size()) +
                ": each rank has its own values, as of moving_mean, or a slice of a "
                "parameter that is cut");
  error.in_file(first.other.file->source->name()).for_parameter(first.parameter->name);
  error.hint(
      has_strategy
          ? "where they may differ, as moving_mean does, --replicas first takes the lowest "
            "rank's, and --replicas own each rank's"
          : "for such values, --replicas first takes the lowest rank's, and --replicas own each "
            "rank's; for slices, give the strategy that they were saved with "
            "(--src-strategy), or let 'reshardfs strategy guess' find it; or name one "
            "rank's file as the source; --exclude leaves "
            "parameters out");
  throw error;
}

std::string lowest_rank_warning(const std::vector<const SourceParameter*>& differing) {
  constexpr std::size_t kShown = 20;
  std::string names;
  for (std::size_t i = 0; i < differing.size() && i < kShown; ++i) {
    names += (i == 0 ? "" : ", ") + printable(differing[i]->name);
  }
  if (differing.size() > kShown) names += ", ...";
  const bool one = differing.size() == 1;
  return "taken from the lowest rank, because of --replicas first: " +
         counted(differing.size(), "parameter") + " (" + names +
         (one ? ") that differs between the ranks" : ") that differ between the ranks");
}

SettledReplicas settle_replicas(const ShownTables& shown, Replicas replicas) {
  const SourceTable& source = shown.target.source();
  const ReplicaFindings findings = check_replicas(source, uncompared(shown));
  SettledReplicas settled;
  if (findings.unreadable > 0) {
    settled.notes.emplace_back("not all samples of replicas could be read");
  }
  if (replicas == Replicas::kSame) {
    if (!findings.differing.empty()) refuse_replicas(findings.differing, source);
    return settled;
  }
  // What was not compared may differ: nothing says any more that it is the same.
  shown.target.forget_stand_ins(findings.equal);
  if (shown.whole != nullptr) shown.whole->forget_stand_ins(findings.equal);
  const auto differing = differing_parameters(shown, findings.differing);
  if (replicas == Replicas::kOwn) require_own(shown, differing);
  if (replicas == Replicas::kFirst && !differing.empty()) {
    settled.warnings.push_back(lowest_rank_warning(differing));
  }
  return settled;
}

}  // namespace reshardfs
