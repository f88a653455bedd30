// SPDX-License-Identifier: Apache-2.0
/// Sources from which work is held back: those that do not answer, and those that one piece of work
/// uses exclusively.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <vector>

#include "storage/byte_source.h"
#include "vfs/inode_number.h"

namespace reshardfs {

/// A source or (WaitClass::kDirectory, kFile) a node that work waits for.
struct Awaited {
  const ByteSource* source = nullptr;
  InodeNumber node = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const Awaited&) const = default;
};

/// Everything that a piece of work waits for.
using WaitKey = std::vector<Awaited>;

/// Not thread-safe, except any().
class ClosedSources {
 public:
  using Clock = std::chrono::steady_clock;

  /// The time after which a stuck source is tried again.
  static constexpr std::chrono::milliseconds kProbeInterval{500};

  /// Closes it for all but one piece of work. @return whether it was open. @throws std::bad_alloc
  bool close(const Awaited& awaited);
  /// Closes it because it does not answer. @throws std::bad_alloc
  void close_stuck(const Awaited& awaited, Clock::time_point now);
  void reopen(const Awaited& awaited) noexcept;

  bool is_closed(const Awaited& awaited) const noexcept { return closed_.contains(awaited); }
  bool holds_back(const WaitKey& key) const noexcept;
  /// Whether `awaited`, which is closed, is the only closed one in the key.
  bool is_only_obstacle(const Awaited& awaited, const WaitKey& key) const noexcept;
  /// May be called by any thread at any time.
  bool any() const noexcept { return any_; }
  bool is_any_stuck() const noexcept { return stuck_ > 0; }

  /// Calls `send` for each stuck source that is due to be tried.
  /// @param send returns whether a piece of work is on its way to try it; must not throw.
  template <typename Send>
  void send_probes(Clock::time_point now, Send&& send) noexcept {
    for (auto& [awaited, closed] : closed_) {
      if (!closed.stuck || closed.probed || now - closed.since < kProbeInterval) continue;
      closed.probed = send(awaited);
    }
  }
  /// Call this if the work that should try it did not: other work will be sent.
  void probe_again(const Awaited& awaited) noexcept;

 private:
  struct Closed {
    bool stuck = false;
    Clock::time_point since{};  ///< when it was found to be stuck
    bool probed = false;        ///< a piece of work is on its way to try it
  };

  std::map<Awaited, Closed> closed_;
  std::size_t stuck_ = 0;  ///< in closed_
  std::atomic<bool> any_ = false;
};

}  // namespace reshardfs
