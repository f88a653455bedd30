// SPDX-License-Identifier: Apache-2.0
/// What has become of the mount that this process serves, for its status and metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

struct MountRecord {
  std::uint64_t upgrades = 0;   ///< a process has taken the mount over from a running one
  std::uint64_t crashes = 0;    ///< a process went on with it after one had ended unforeseen
  std::int64_t mounted_at = 0;  ///< seconds since the epoch
  std::int64_t last_at = 0;     ///< of the last upgrade or crash; 0: there was none
  std::string last_program{};   ///< version of the program before the last upgrade or crash
  std::uint64_t replaced = 0;   ///< another tree was shown in the place of the one before
  std::uint64_t reloads = 0;    ///< attempts to hand it over that have ended
  std::string refusal{};        ///< why the last one failed; empty: it has not
  std::vector<std::int64_t> crash_times_ms{};  ///< of the last minute, by the clock since boot
};

/// Of this process. Both may be called by any thread at any time.
MountRecord mount_record();
void set_mount_record(MountRecord record);

/// Whether the kernel is still being told that what it has kept of the mount is out of date.
bool is_telling_kernel();
void set_telling_kernel(bool telling);

/// In Prometheus' text format.
std::string mount_metrics();

}  // namespace reshardfs
