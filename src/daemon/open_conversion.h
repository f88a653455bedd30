// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/conversion.h"

namespace reshardfs {

/// Opens the conversion and logs its warnings and notes.
Conversion open_conversion(const ConversionOptions& options);

}  // namespace reshardfs
