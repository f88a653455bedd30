// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/doctor/bounded_check.h"

namespace reshardfs {

/// Every mount of reshardfs in a file in the format of fstab(5): what mount(8) would run for it,
/// and the words that the boot needs.
Findings check_fstab(const std::string& file, const BoundedChecks& bounded);

}  // namespace reshardfs
