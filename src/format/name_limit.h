// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace reshardfs {

/// Bytes of a parameter's name, in every format. A longer one is a damaged file.
inline constexpr std::size_t kMaxParameterName = 4096;

}  // namespace reshardfs
