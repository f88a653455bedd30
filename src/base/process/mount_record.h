// SPDX-License-Identifier: Apache-2.0
/// What has become of the mount that this process serves, for its status and metrics.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

/// What logs and metrics call the mount of this process.
struct MountName {
  std::string place{};   ///< its mount point; of one without a path, the socket that it came by
  std::string source{};  ///< what it was made from, without anything that may be secret
};

/// Of this process; empty texts before it has a mount. Both may be called by any thread at any
/// time.
MountName mount_name();
void set_mount_name(MountName name);

class MetricsText;

/// The requests to hand the mount over, numbered from 1 in the order in which processes took them.
/// One attempt answers all that had been taken when it began; the others wait for its end.
struct ReloadRequests {
  std::uint64_t taken = 0;       ///< the last one
  std::uint64_t to_replace = 0;  ///< the last one that allows other contents
  std::uint64_t attempted = 0;   ///< the last one that the latest attempt answers
  std::uint64_t answered = 0;    ///< the last one whose attempt has ended
  std::uint64_t granted = 0;     ///< the last one for which another process has the mount
  std::uint64_t replaced = 0;    ///< the same, by an attempt that allowed other contents

  void take(bool replace) noexcept {
    ++taken;
    if (replace) to_replace = taken;
  }
  bool is_any_waiting() const noexcept { return taken > attempted; }
  bool is_any_to_replace_waiting() const noexcept { return to_replace > attempted; }
  void begin_attempt() noexcept { attempted = taken; }
  void refuse() noexcept { answered = attempted; }
  void grant(bool replace) noexcept {
    answered = granted = attempted;
    if (replace) replaced = attempted;
  }
  /// After a crash: what is not answered is not taken. An attempt that made the process crash must
  /// not be made by each one that goes on; the caller that waits for it asks again.
  void forget_unanswered() noexcept {
    taken = attempted = answered;
    to_replace = std::min(to_replace, answered);
  }
};

struct MountRecord {
  std::uint64_t upgrades = 0;   ///< a process has taken the mount over from a running one
  std::uint64_t crashes = 0;    ///< a process went on with it after one had ended unforeseen
  std::int64_t mounted_at = 0;  ///< seconds since the epoch
  std::int64_t last_at = 0;     ///< of the last upgrade or crash; 0: there was none
  std::string last_program{};   ///< version of the program before the last upgrade or crash
  std::uint64_t replaced = 0;   ///< another tree was shown in the place of the one before
  std::uint64_t reloads = 0;    ///< attempts to hand it over that have ended
  std::string refusal{};        ///< why the last one failed; empty: it has not
  ReloadRequests requests{};
  std::vector<std::int64_t> crash_times_ms{};  ///< of the last minute, by the clock since boot
};

/// Of this process. Both may be called by any thread at any time.
MountRecord mount_record();
void set_mount_record(MountRecord record);

/// Whether the kernel is still being told that what it has kept of the mount is out of date.
bool is_telling_kernel();
void set_telling_kernel(bool telling);

void write_mount_metrics(MetricsText& text);

}  // namespace reshardfs
