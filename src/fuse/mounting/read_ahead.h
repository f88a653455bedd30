// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace reshardfs {

/// How far the kernel should read ahead in a mount, in KiB.
///
/// 1024 for fast sources, so that the bytes which a reader copies out of the page cache are still
/// in the processor's caches. 4096 for sources on a network or a FUSE file system: four requests of
/// 1 MiB are in progress together, which halves the time if each of them waits.
/// @param source counts as fast if it cannot be examined.
unsigned read_ahead_for(const std::filesystem::path& source) noexcept;

}  // namespace reshardfs
