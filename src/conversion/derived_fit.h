// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "plan/source/source_table.h"
#include "plan/target/name_map.h"

namespace reshardfs {

/// What to answer where a target that was derived from sizes does not fit the source. Where tp does
/// not divide a dimension that it would cut: that, and which numbers fit all parameters. Else the
/// error as it is.
/// @param error of TargetTable, for a parameter.
/// @param sizes "tp=3,dp=2"
/// @param filter over destination names: parameters that it leaves out need not fit.
Error misfit_of_sizes(const Error& error, const std::string& sizes, const SourceTable& source,
                      const NameMap& names, const NameFilter& filter);

}  // namespace reshardfs
