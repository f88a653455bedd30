// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/rank.h"
#include "reshardfs/sizes.h"
#include "reshardfs/strategy.h"
#include "reshardfs/strategy_rules.h"

#include "plan/source/source_table.h"
#include "plan/target/name_map.h"
#include "storage/inputs.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// A strategy as the user names it. MindSpore's files are read at once; rules and sizes become a
/// strategy only when the parameters they are for are known.
class StrategyInput {
 public:
  /// @param linkless_root as for Strategy::load().
  /// @param inputs gets the files that are read; nullptr: nothing is recorded.
  /// @throws Error as Strategy::load() and StrategyRules::load().
  explicit StrategyInput(const std::optional<std::filesystem::path>& path, DerivedSizes sizes = {},
                         const std::filesystem::path& linkless_root = {},
                         const InputsPtr& inputs = nullptr);
  /// A strategy given as sizes.
  /// @param stage_layers as for derive_strategy().
  StrategyInput(DerivedSizes sizes, std::vector<std::int64_t> stage_layers)
      : sizes_(std::move(sizes)), stage_layers_(std::move(stage_layers)) {}

  /// A strategy that is already known.
  /// @param file that it came from, for messages.
  StrategyInput(Strategy strategy, std::string file)
      : strategy_(std::move(strategy)), file_(std::move(file)) {}

  /// The ranks of a source with this strategy; nullopt if there is no strategy or it is given as
  /// sizes. They begin at rank 0, except for the file of one later pipeline stage. Call this before
  /// for_source() or for_target(), which take the strategy out.
  std::optional<RankRange> ranks() const;

  /// The same with the ranks' stages.
  std::optional<SourceRanks> source_ranks() const;

  /// Describes what the strategy says about a parameter, as far as this is known without a source;
  /// for messages.
  /// @param name the parameter's destination name.
  std::string words_for(const std::string& name) const;

  /// Makes rules that select nothing a warning instead of an error.
  void allow_unmatched(bool allowed = true) { allows_unmatched_ = allowed; }
  /// The warnings since the last call, one line each.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

  /// The source's strategy; nullopt if there is none. Rules lay out the parameters that they match;
  /// source_table() handles the others.
  /// @param takes selects parameters. Others need no layout, so rules may leave theirs undecided.
  /// @throws Error kBadInput for rules that select nothing, unless the checkpoint lacks the files
  ///         of a whole pipeline stage, which may contain their parameters.
  std::optional<Strategy> for_source(const CheckpointSet& checkpoint, const NameTaker& takes = {});
  /// The same, without taking the strategy out, and rules may select nothing.
  std::optional<Strategy> preview(const CheckpointSet& checkpoint, const NameTaker& takes) const;
  /// @param names gives the parameters' destination names, to which rules are applied.
  /// @throws as for_source().
  std::optional<Strategy> for_target(const SourceTable& source, const NameMap& names);

  /// The layouts for a destination with these tensors; does not take the strategy out. nullopt if
  /// there is no strategy, or it is given as sizes.
  std::optional<Strategy> layouts_of(const std::vector<NamedShape>& tensors) const;
  bool is_sizes() const noexcept { return !sizes_.empty(); }

  bool is_rules() const noexcept { return rules_.has_value(); }
  /// nullptr if the strategy is not given as rules.
  const StrategyRules* rules() const noexcept { return rules_ ? &*rules_ : nullptr; }

 private:
  void check_rules(const std::vector<NamedShape>& parameters, bool lacks_stages);

  std::optional<Strategy> strategy_;
  std::optional<StrategyRules> rules_;
  DerivedSizes sizes_;
  std::vector<std::int64_t> stage_layers_;
  std::string file_;
  bool allows_unmatched_ = false;
  std::vector<std::string> warnings_;
};

/// Whether no file of a pipeline stage exists, so that the names of its parameters are unknown.
bool lacks_a_stage(const CheckpointSet& checkpoint, const SourceRanks& ranks);

/// The parameters of a checkpoint, with the shapes of their slices.
/// @param takes selects the parameters.
std::vector<NamedShape> slice_shapes(const CheckpointSet& checkpoint, const NameTaker& takes = {});

/// load_strategy() of a path that a user has named, which may be a checkpoint instead.
/// @throws Error kUsage if it is one; what load_strategy() throws.
Strategy load_named_strategy(const std::filesystem::path& path,
                             const SourceTreePtr& tree = nullptr);

}  // namespace reshardfs
