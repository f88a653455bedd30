// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

#include "fuse/queue/asker.h"

namespace reshardfs {

/// Decides when the log tells that programs wait for the source, and that they do no longer. A
/// stall has two lines, however many requests wait and however long it lasts. Not thread-safe.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// A request that has waited for this long is stalled.
  static constexpr std::chrono::seconds kAfter{10};
  /// The next stall is told at the earliest this long after the one before began.
  static constexpr std::chrono::seconds kPause{60};

  struct Stall {
    Asked asked{};  ///< the request that has waited longest
    Clock::duration waited{};
    bool over = false;  ///< no request is stalled any more; `waited` is the time from its arrival
  };

  /// What one look at all requests has found.
  struct Found {
    std::optional<Stall> longest{};  ///< of those that are not answered
    bool any = false;  ///< one is stalled, if only on behalf of a program that was killed since
  };

  /// @return whether there is something to tell.
  bool look(const Found& found, Clock::time_point now) noexcept;
  /// What is to be told next; nullopt: nothing more.
  std::optional<Stall> take() noexcept;

 private:
  std::optional<Stall> now_;  ///< the request with which the present stall began
  std::optional<Clock::time_point> told_at_;
  bool tells_ = false;  ///< the present stall is told, and so will be its end
  std::optional<Stall> begun_;
  std::optional<Stall> ended_;
};

}  // namespace reshardfs
