// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace reshardfs {

/// How far the kernel should read ahead in a mount, in KiB.
///
/// 1024 for sources that answer at once: what a reader copies out of the page cache is then still
/// in the processor's caches. 4096 for sources on a network or a FUSE file system: four requests of
/// 1 MiB are under way together, which halves the time where each of them waits.
/// @param source that cannot be examined: as for one that answers at once.
unsigned read_ahead_for(const std::filesystem::path& source) noexcept;

}  // namespace reshardfs
