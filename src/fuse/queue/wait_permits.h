// SPDX-License-Identifier: Apache-2.0
/// Limits how much work of each class may wait at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reshardfs {

/// What work waits for.
enum class WaitClass : std::uint8_t {
  kRead,       ///< the bytes of a file
  kAttribute,  ///< an attribute that may cost a read of the whole file
  kMade,       ///< a text computed from memory: the report, the plan, a listed attribute
  kLook,       ///< a look whether the source has changed
  kDirectory,  ///< the contents of a pending directory
  kFile,       ///< which source file equals one that is opened
};

/// The limits of a class.
struct WaitLimits {
  /// How much work may run at once.
  unsigned permits = 0;
  /// How much work that is late may run in addition.
  unsigned late = 0;
  /// Whether work that meets a stuck read leaves its thread, and is done again later.
  bool leaves = false;
  /// Work for the same node runs one at a time; the others usually find it done.
  bool one_at_a_time = false;
};

/// By WaitClass.
inline constexpr std::array<WaitLimits, 6> kWaitLimits = {{
    {.permits = 16, .late = 96, .leaves = true},
    {.permits = 4, .late = 16},
    {.permits = 4},
    {.permits = 4},
    {.permits = 4, .late = 16, .one_at_a_time = true},
    {.permits = 4, .late = 16, .one_at_a_time = true},
}};

constexpr const WaitLimits& limits_of(WaitClass kind) noexcept {
  return kWaitLimits[static_cast<std::size_t>(kind)];
}

/// The permits of all classes. For one thread at a time.
class WaitPermits {
 public:
  WaitPermits() noexcept {
    for (std::size_t kind = 0; kind < free_.size(); ++kind) free_[kind] = kWaitLimits[kind].permits;
  }

  unsigned free(WaitClass kind) const noexcept { return free_[static_cast<std::size_t>(kind)]; }
  /// @return whether a permit was free.
  bool take(WaitClass kind) noexcept {
    unsigned& free = free_[static_cast<std::size_t>(kind)];
    if (free == 0) return false;
    --free;
    return true;
  }
  void give_back(WaitClass kind) noexcept { ++free_[static_cast<std::size_t>(kind)]; }

  /// Gives the permit of late work to other work.
  /// @return false if as much is late already; then it keeps its permit.
  bool give_up(WaitClass kind) noexcept {
    unsigned& late = late_[static_cast<std::size_t>(kind)];
    if (late == limits_of(kind).late) return false;
    ++late;
    give_back(kind);
    return true;
  }
  /// Call this when late work has ended.
  void end_late(WaitClass kind) noexcept { --late_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<unsigned, kWaitLimits.size()> free_{};
  std::array<unsigned, kWaitLimits.size()> late_{};
};

}  // namespace reshardfs
