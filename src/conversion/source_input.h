// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "conversion/strategy_input.h"
#include "plan/source/source_table.h"

namespace reshardfs {

struct SourceTableOptions {
  /// Without a strategy: parameters of which each rank holds a slice along dimension 0.
  NameGlobs join{};
  /// Selects parameters; others are not compared, either.
  NameTaker takes{};
  /// See weight_of().
  std::vector<std::string> state_prefixes{};
};

struct SourceTableResult {
  std::shared_ptr<const SourceTable> table;
  std::vector<std::string> warnings;
  /// Rules that select nothing, if StrategyInput allows them; for warnings.
  std::vector<std::string> unmatched;
  std::vector<std::string> notes;
};

/// The parameters of a source under its strategy. For parameters that no rule matches, it reads
/// their bytes to find out how they are cut: see UnknownParameters.
/// @throws Error kBadInput with the rules file, the parameters and the rule to add if the bytes do
///         not decide; errors of StrategyInput and SourceTable.
SourceTableResult source_table(const std::shared_ptr<const CheckpointSet>& checkpoint,
                               StrategyInput& strategy, const SourceTableOptions& options);

}  // namespace reshardfs
