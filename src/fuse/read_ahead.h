// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace reshardfs {

/// Sets the kernel's read-ahead for the mount at `mountpoint`, without touching the mount. Needs to
/// be root; otherwise logs what root would have to run. Never throws: slower is not broken.
void set_read_ahead(const std::filesystem::path& mountpoint, unsigned kib) noexcept;

}  // namespace reshardfs
