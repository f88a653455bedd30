// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace reshardfs {

/// Makes room for `files` more open files: raises the soft limit to the hard one if it is too low.
/// Never fails: if the hard limit is too low as well, sources share descriptors.
void raise_open_file_limit(std::size_t files) noexcept;

/// How many files the process may have open.
std::size_t open_file_limit() noexcept;

}  // namespace reshardfs
