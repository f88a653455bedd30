// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace reshardfs {

/// Makes room for `files` more open files: raises the soft limit to the hard one if it is too low.
/// Never fails: if the hard limit is too low as well, opening a file says so.
void raise_open_file_limit(std::size_t files) noexcept;

}  // namespace reshardfs
