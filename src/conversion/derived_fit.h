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

/// The error to report if a target that was derived from sizes does not fit the source. If tp does
/// not divide a dimension that it would cut, the error says so and lists the numbers that fit all
/// parameters. Otherwise it is `error`.
/// @param error the error of TargetTable about a parameter.
/// @param sizes "tp=3,dp=2"
/// @param target parameters that its filter leaves out do not count.
/// @param strategy_for derives the target from other sizes; may throw.
Error misfit_of_sizes(
    const Error& error, const DerivedSizes& sizes, const SourceTable& source,
    const TargetOptions& target,
    const std::function<std::optional<Strategy>(const DerivedSizes& sizes)>& strategy_for);

}  // namespace reshardfs
