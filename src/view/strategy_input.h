// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "reshardfs/strategy.h"
#include "reshardfs/strategy_rules.h"

#include "plan/name_map.h"
#include "plan/source_table.h"

namespace reshardfs {

/// A strategy as the user names it. MindSpore's files are read at once; rules and sizes become a
/// strategy only when the parameters they are for are known.
class StrategyInput {
 public:
  /// @throws Error as Strategy::load() and StrategyRules::load().
  explicit StrategyInput(const std::optional<std::filesystem::path>& path, std::string sizes = {});

  /// Nothing if there is no strategy.
  std::optional<Strategy> for_source(const CheckpointSet& checkpoint);
  /// @param names rules are applied to the parameters' destination names.
  std::optional<Strategy> for_target(const SourceTable& source, const NameMap& names);

 private:
  std::optional<Strategy> strategy_;
  std::optional<StrategyRules> rules_;
  std::string sizes_;
};

/// The parameters of a checkpoint, with the shapes of their slices.
std::vector<NamedShape> slice_shapes(const CheckpointSet& checkpoint);

}  // namespace reshardfs
