// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "reshardfs/strategy.h"
#include "reshardfs/strategy_rules.h"

#include "plan/name_map.h"
#include "plan/source_table.h"

namespace reshardfs {

/// Ranks [first, first + count).
struct RankRange {
  std::int64_t first = 0;  ///< not 0 for the file of a later pipeline stage alone
  std::int64_t count = 0;
};

/// A strategy as the user names it. MindSpore's files are read at once; rules and sizes become a
/// strategy only when the parameters they are for are known.
class StrategyInput {
 public:
  /// @throws Error as Strategy::load() and StrategyRules::load().
  explicit StrategyInput(const std::optional<std::filesystem::path>& path, std::string sizes = {});

  /// The ranks that a source of this strategy has, nothing if there is no strategy or it is given
  /// as sizes. To be asked before the strategy is taken out.
  std::optional<RankRange> ranks() const;

  /// What it says about a parameter, as far as that is known without a source; for messages.
  /// @param name the parameter's destination name.
  std::string words_for(const std::string& name) const;

  /// Nothing if there is no strategy.
  std::optional<Strategy> for_source(const CheckpointSet& checkpoint);
  /// @param names rules are applied to the parameters' destination names.
  std::optional<Strategy> for_target(const SourceTable& source, const NameMap& names);

  bool is_rules() const noexcept { return rules_.has_value(); }

 private:
  std::optional<Strategy> strategy_;
  std::optional<StrategyRules> rules_;
  std::string sizes_;
  std::string file_;
};

/// The parameters of a checkpoint, with the shapes of their slices.
std::vector<NamedShape> slice_shapes(const CheckpointSet& checkpoint);

}  // namespace reshardfs
