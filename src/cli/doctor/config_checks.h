// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/bounded_check.h"

namespace reshardfs {

/// A configuration file and its mounts.
/// @param names arguments of the command: those that name a table choose it, and are taken out; if
///        there is none, all tables are checked.
Findings check_config(const std::string& file, std::vector<std::string>& names,
                      const BoundedChecks& bounded);

}  // namespace reshardfs
