// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "plan/source/source_table.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// What to answer where a target that was derived from sizes does not fit the source. Where tp does
/// not divide a dimension that it would cut: that, and which numbers fit all parameters. Else the
/// error as it is.
/// @param error of TargetTable, for a parameter.
/// @param sizes "tp=3,dp=2"
/// @param target parameters that its filter leaves out need not fit.
/// @param strategy_for the target that other sizes give; may throw.
Error misfit_of_sizes(
    const Error& error, const std::string& sizes, const SourceTable& source,
    const TargetOptions& target,
    const std::function<std::optional<Strategy>(const std::string& sizes)>& strategy_for);

}  // namespace reshardfs
