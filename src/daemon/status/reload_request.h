// SPDX-License-Identifier: Apache-2.0
/// What has become of a request to hand a mount over, as the mount's status shows it. A request is
/// a signal, and signals may be lost: with the process that had it, or beside another one of the
/// same number. So a request counts once the mount says that it was taken, and is made again until
/// then.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/json/json_value.h"
#include "base/process/mount_record.h"

namespace reshardfs {

/// What the status of a mount says of its hand-overs.
struct Served {
  pid_t process = 0;
  std::string version{};
  std::uint64_t processes = 0;  ///< that have gone on with the mount, which tells each from others
  std::uint64_t crashes = 0;    ///< those after a crash
  std::uint64_t reloads = 0;    ///< attempts that have ended
  std::string refusal{};
  bool is_replacing = false;                 ///< the kernel does not know all of it yet
  std::optional<ReloadRequests> requests{};  ///< none: the program is too old to count them
};

/// @param status .reshardfs/status.json
Served served_of(const JsonValue& status);

class ReloadRequest {
 public:
  enum class Step : std::uint8_t {
    kWait,
    kAsk,  ///< the process that serves the mount now
    kDone,
    kRefused,
    kCrashes,  ///< several processes have ended with the request: perhaps because of it
  };

  /// The caller asks that process.
  ReloadRequest(bool replace, Served now) : replace_(replace), before_(std::move(now)) {}

  /// What the caller does next, once it has looked at who serves the mount.
  Step next(const Served& now);
  /// The process that was asked last.
  pid_t asked() const noexcept { return before_.process; }

 private:
  Step ask(const Served& now);
  Step end(const Served& now);
  Step next_of_old_program(const Served& now);

  bool replace_;
  Served before_;                        ///< when the request was made last
  std::uint64_t crashes_ = 0;            ///< since it was made first
  std::optional<std::uint64_t> number_;  ///< with which it was taken
  int refused_ = 0;                      ///< attempts that the mount advises to make again
};

}  // namespace reshardfs
