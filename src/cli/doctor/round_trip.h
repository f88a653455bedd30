// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/doctor/bounded_check.h"

namespace reshardfs {

/// Mounts a small file of its own in a temporary directory, reads it, and unmounts. Leaves nothing,
/// even if the time is over.
Finding check_round_trip(const BoundedChecks& bounded);

}  // namespace reshardfs
