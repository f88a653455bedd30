// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace reshardfs::test {

/// What a process is doing when it is killed.
enum class Moment : std::uint8_t { kAny, kWriting, kEvicting };

/// When a process is to be killed: at one of its system calls while it does that, or at any time.
struct KillPoint {
  Moment moment = Moment::kAny;
  std::uint64_t blocks = 1;  ///< that it uses before
  std::uint64_t calls = 0;   ///< that it may still make
};

/// What a process tells of itself.
inline constexpr char kUsedBlock = '.';
inline constexpr char kStopped = 's';

/// Whether a process that is stopped, or this one, writes a block or has the lock of those who
/// evict.
bool is_doing(pid_t pid, Moment moment);

/// This process shall stop at the point, once, and write kStopped to `events` just before. The call
/// is not made then; of a call that writes, half is.
void stop_at(const KillPoint& point, int events);

}  // namespace reshardfs::test
