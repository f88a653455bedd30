// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reshardfs/strategy.h"

namespace reshardfs {

/// The size of to_json(), without the text of a million parameters.
/// @throws Error as to_json().
std::uint64_t json_bytes(const Strategy& strategy);

}  // namespace reshardfs
