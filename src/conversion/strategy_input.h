// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/rank.h"
#include "reshardfs/strategy.h"
#include "reshardfs/strategy_rules.h"

#include "plan/source/source_table.h"
#include "plan/target/name_map.h"

namespace reshardfs {

/// A strategy as the user names it. MindSpore's files are read at once; rules and sizes become a
/// strategy only when the parameters they are for are known.
class StrategyInput {
 public:
  /// @param linkless_root as for Strategy::load().
  /// @throws Error as Strategy::load() and StrategyRules::load().
  explicit StrategyInput(const std::optional<std::filesystem::path>& path, std::string sizes = {},
                         const std::filesystem::path& linkless_root = {});
  /// Sizes.
  /// @param stage_layers as for derive_strategy().
  StrategyInput(std::string sizes, std::vector<std::int64_t> stage_layers)
      : sizes_(std::move(sizes)), stage_layers_(std::move(stage_layers)) {}

  /// One that is known already.
  /// @param file that it came from, for messages.
  StrategyInput(Strategy strategy, std::string file)
      : strategy_(std::move(strategy)), file_(std::move(file)) {}

  /// The ranks that a source of this strategy has, nothing if there is no strategy or it is given
  /// as sizes; from rank 0 on, but for the file of a later pipeline stage alone. To be asked before
  /// the strategy is taken out.
  std::optional<RankRange> ranks() const;

  /// The same with their stages.
  std::optional<SourceRanks> source_ranks() const;

  /// What it says about a parameter, as far as that is known without a source; for messages.
  /// @param name the parameter's destination name.
  std::string words_for(const std::string& name) const;

  /// Rules that select nothing are warned of, and no error.
  void allow_unmatched(bool allowed = true) { allows_unmatched_ = allowed; }
  /// What was found to warn of since the last call, one line each.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

  /// Nothing if there is no strategy. Rules lay out the parameters that they take: see
  /// source_table() for the others.
  /// @param takes what it does not take needs no layout: rules may leave it undecided.
  /// @throws Error kBadInput for rules that select nothing, unless the checkpoint lacks the files
  ///         of a whole pipeline stage, which may have it.
  std::optional<Strategy> for_source(const CheckpointSet& checkpoint, const NameTaker& takes = {});
  /// @param names rules are applied to the parameters' destination names.
  /// @throws as for_source().
  std::optional<Strategy> for_target(const SourceTable& source, const NameMap& names);

  /// What it lays out of a destination with these tensors, without taking the strategy out.
  /// Nothing if there is none, or sizes.
  std::optional<Strategy> layouts_of(const std::vector<NamedShape>& tensors) const;
  bool is_sizes() const noexcept { return !sizes_.empty(); }

  bool is_rules() const noexcept { return rules_.has_value(); }
  /// nullptr if it is none.
  const StrategyRules* rules() const noexcept { return rules_ ? &*rules_ : nullptr; }

 private:
  void check_rules(const std::vector<NamedShape>& parameters, bool lacks_stages);

  std::optional<Strategy> strategy_;
  std::optional<StrategyRules> rules_;
  std::string sizes_;
  std::vector<std::int64_t> stage_layers_;
  std::string file_;
  bool allows_unmatched_ = false;
  std::vector<std::string> warnings_;
};

/// Whether a pipeline stage has no file: then nobody knows the names of its parameters.
bool lacks_a_stage(const CheckpointSet& checkpoint, const SourceRanks& ranks);

/// The parameters of a checkpoint, with the shapes of their slices.
/// @param takes those that it does not take are left out.
std::vector<NamedShape> slice_shapes(const CheckpointSet& checkpoint, const NameTaker& takes = {});

}  // namespace reshardfs
