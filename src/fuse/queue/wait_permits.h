// SPDX-License-Identifier: Apache-2.0
/// How much work may wait at once, by what it waits for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reshardfs {

/// What work waits for.
enum class WaitClass : std::uint8_t {
  kRead,       ///< the bytes of a file
  kAttribute,  ///< an attribute that may cost a read of the whole file
  kMade,       ///< what is computed from memory: the report, the plan, a listed attribute
  kLook,       ///< a look whether the source has changed
  kDirectory,  ///< what a pending directory holds
  kFile,       ///< which source file equals one that is opened
};

/// How much of a class may be under way.
struct WaitLimits {
  /// Work that may run at once.
  unsigned permits = 0;
  /// Work that may be stuck beside it: its permits have been given to others.
  unsigned stuck = 0;
  /// Of work with the same key one runs at a time; the others mostly find it done.
  bool one_at_a_time = false;
};

/// By WaitClass.
inline constexpr std::array<WaitLimits, 6> kWaitLimits = {{
    {.permits = 16, .stuck = 96},
    {.permits = 4, .stuck = 16},
    {.permits = 4},
    {.permits = 4},
    {.permits = 4, .stuck = 16, .one_at_a_time = true},
    {.permits = 4, .stuck = 16, .one_at_a_time = true},
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
  /// @return whether there was one.
  bool take(WaitClass kind) noexcept {
    unsigned& free = free_[static_cast<std::size_t>(kind)];
    if (free == 0) return false;
    --free;
    return true;
  }
  void give_back(WaitClass kind) noexcept { ++free_[static_cast<std::size_t>(kind)]; }

  /// Others get the permit of work that is stuck.
  /// @return false if as much is stuck as may be: it keeps its permit.
  bool lend(WaitClass kind) noexcept {
    unsigned& lent = lent_[static_cast<std::size_t>(kind)];
    if (lent == limits_of(kind).stuck) return false;
    ++lent;
    give_back(kind);
    return true;
  }
  /// Work whose permit was lent has ended.
  void end_lending(WaitClass kind) noexcept { --lent_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<unsigned, kWaitLimits.size()> free_{};
  std::array<unsigned, kWaitLimits.size()> lent_{};
};

}  // namespace reshardfs
