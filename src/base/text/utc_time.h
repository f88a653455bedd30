// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace reshardfs {

/// "2026-01-31T09:05:00Z"
/// @param ns nanoseconds since the epoch.
std::string utc_time(std::int64_t ns);

}  // namespace reshardfs
