// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reshardfs/conversion.h"

namespace reshardfs {

/// The options that differ from their defaults, as the command line has them ("--step 9_50"); those
/// that name the source and the strategies are not among them, and the key file is not named.
std::vector<std::string> option_texts(const ConversionOptions& options);

}  // namespace reshardfs
