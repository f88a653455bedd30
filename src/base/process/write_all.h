// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace reshardfs {

/// Writes all of it, through signals too. @return 0, or an errno.
int write_all(int file, std::string_view bytes) noexcept;

}  // namespace reshardfs
