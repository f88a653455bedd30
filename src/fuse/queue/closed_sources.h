// SPDX-License-Identifier: Apache-2.0
/// What work is held back from: sources that do not answer, and what one piece of work has for
/// itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <vector>

#include "storage/byte_source.h"
#include "vfs/inode_number.h"

namespace reshardfs {

/// What work waits for: a source, or (WaitClass::kDirectory, kFile) a node.
struct Awaited {
  const ByteSource* source = nullptr;
  InodeNumber node = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const Awaited&) const = default;
};

/// All that a piece of work waits for.
using WaitKey = std::vector<Awaited>;

/// For one thread at a time, but for any().
class ClosedSources {
 public:
  using Clock = std::chrono::steady_clock;

  /// After which a stuck source is tried again.
  static constexpr std::chrono::milliseconds kProbeInterval{500};

  /// One piece of work has it for itself. @return whether it was open. @throws std::bad_alloc
  bool close(const Awaited& awaited);
  /// It does not answer. @throws std::bad_alloc
  void close_stuck(const Awaited& awaited, Clock::time_point now);
  void reopen(const Awaited& awaited) noexcept;

  bool is_closed(const Awaited& awaited) const noexcept { return closed_.contains(awaited); }
  bool holds_back(const WaitKey& key) const noexcept;
  /// Whether it, which is closed, is all of the key that is.
  bool is_only_obstacle(const Awaited& awaited, const WaitKey& key) const noexcept;
  /// May be called by any thread at any time.
  bool any() const noexcept { return any_; }
  bool is_any_stuck() const noexcept { return stuck_ > 0; }

  /// Calls `send` for each stuck source that is to be tried.
  /// @param send returns whether a piece of work is on its way to try it; must not throw.
  template <typename Send>
  void send_probes(Clock::time_point now, Send&& send) noexcept {
    for (auto& [awaited, closed] : closed_) {
      if (!closed.stuck || closed.probed || now - closed.since < kProbeInterval) continue;
      closed.probed = send(awaited);
    }
  }
  /// The work that was to try it has not: another one will have to.
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
