// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "checkpoint/series/series.h"

namespace reshardfs {

/// Prints the series of checkpoints that lie in one directory, for the user to choose from.
void print_series(const std::vector<SeriesInfo>& all, bool as_json);

}  // namespace reshardfs
