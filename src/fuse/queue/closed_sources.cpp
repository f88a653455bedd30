// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/closed_sources.h"

#include <algorithm>

namespace reshardfs {

bool ClosedSources::close(const Awaited& awaited) {
  const bool was_open = closed_.try_emplace(awaited).second;
  any_ = true;
  return was_open;
}

void ClosedSources::close_stuck(const Awaited& awaited, Clock::time_point now) {
  Closed& closed = closed_.try_emplace(awaited).first->second;
  any_ = true;
  if (closed.stuck) return;
  ++stuck_;
  closed = {.stuck = true, .since = now};
}

void ClosedSources::reopen(const Awaited& awaited) noexcept {
  const auto closed = closed_.find(awaited);
  if (closed == closed_.end()) return;
  if (closed->second.stuck) --stuck_;
  closed_.erase(closed);
  any_ = !closed_.empty();
}

bool ClosedSources::holds_back(const WaitKey& key) const noexcept {
  return std::any_of(key.begin(), key.end(),
                     [this](const Awaited& awaited) { return is_closed(awaited); });
}

bool ClosedSources::is_only_obstacle(const Awaited& awaited, const WaitKey& key) const noexcept {
  const auto closed = std::count_if(key.begin(), key.end(),
                                    [this](const Awaited& read) { return is_closed(read); });
  return closed == 1 && std::find(key.begin(), key.end(), awaited) != key.end();
}

void ClosedSources::probe_again(const Awaited& awaited) noexcept {
  const auto closed = closed_.find(awaited);
  if (closed != closed_.end()) closed->second.probed = false;
}

}  // namespace reshardfs
