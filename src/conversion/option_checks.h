// SPDX-License-Identifier: Apache-2.0
/// What is wrong with options of a conversion by themselves, before a file is looked at.
#pragma once

#include "reshardfs/conversion_options.h"

namespace reshardfs {

/// @throws Error kUsage for what the command line cannot have checked.
void check_output_options(const ConversionOptions& options);

/// @throws Error kUsage
void check_stage_layers(const ConversionOptions& options);

}  // namespace reshardfs
