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
  /// What is not taken is not compared either.
  NameTaker takes{};
  /// See weight_of().
  std::vector<std::string> state_prefixes{};
};

struct SourceTableResult {
  std::shared_ptr<const SourceTable> table;
  std::vector<std::string> warnings;
  /// Rules that select nothing, as StrategyInput allows them: for warnings.
  std::vector<std::string> unmatched;
  std::vector<std::string> notes;
};

/// The parameters of a source under its strategy. Of those that its rules do not take the bytes
/// decide, which are read: see UnknownParameters.
/// @throws Error kBadInput with the file of rules, the parameters and the rule to write, where
///         bytes cannot decide; what StrategyInput and SourceTable throw.
SourceTableResult source_table(const std::shared_ptr<const CheckpointSet>& checkpoint,
                               StrategyInput& strategy, const SourceTableOptions& options);

}  // namespace reshardfs
