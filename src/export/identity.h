// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "reshardfs/conversion.h"

namespace reshardfs {

/// What decides the bytes of a conversion's files: the source files' names, sizes and times, the
/// contents of the strategy files, the options, and the version of the program. Which ranks and
/// views are shown is not part of it, so that they may be exported one after another.
/// @throws Error kMissing or kIo if a file that the options name cannot be read.
nlohmann::ordered_json conversion_identity(const ConversionOptions& options,
                                           const Conversion& conversion);

}  // namespace reshardfs
