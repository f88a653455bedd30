// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/stall_watch.h"

#include <utility>

namespace reshardfs {

bool StallWatch::look(const Found& found, Clock::time_point now) noexcept {
  if (found.longest && found.longest->waited >= kAfter) {
    if (!now_) now_ = found.longest;
    if (tells_ || (told_at_ && now - *told_at_ < kPause)) return false;
    tells_ = true;
    told_at_ = now;
    begun_ = found.longest;
    return true;
  }
  if (!now_ || found.any) return false;
  Stall ended = *std::exchange(now_, std::nullopt);
  if (!std::exchange(tells_, false)) return false;
  ended.waited = now - ended.asked.asker.since;
  ended.over = true;
  ended_ = ended;
  return true;
}

std::optional<StallWatch::Stall> StallWatch::take() noexcept {
  if (begun_) return std::exchange(begun_, std::nullopt);
  return std::exchange(ended_, std::nullopt);
}

}  // namespace reshardfs
