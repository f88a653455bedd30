// SPDX-License-Identifier: Apache-2.0
#include "transport/retry_schedule.h"

#include <algorithm>

#include "base/scatter.h"
#include "transport/http_message.h"

namespace reshardfs {

RetrySchedule::Duration RetrySchedule::next(std::optional<Duration> at_least) noexcept {
  const Duration bound = std::min(kFirst * (std::int64_t{1} << std::min(attempts_, 16U)), kLongest);
  const std::uint64_t random = scatter(seed_ + attempts_++);
  const auto span = static_cast<std::uint64_t>(bound.count()) + 1;
  const Duration jitter(static_cast<std::int64_t>(random % span));
  return at_least ? *at_least + jitter : jitter;
}

std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text,
                                                           std::int64_t date_seconds,
                                                           std::int64_t now) noexcept {
  constexpr std::int64_t kMost = 3600;
  if (const auto seconds = parse_decimal(text)) {
    return std::chrono::seconds(std::min(static_cast<std::int64_t>(*seconds), kMost));
  }
  if (date_seconds < 0) return std::nullopt;
  return std::chrono::seconds(std::clamp<std::int64_t>(date_seconds - now, 0, kMost));
}

bool is_worth_a_retry(long status) noexcept {
  switch (status) {
    case 408:  // the server has waited for the request
    case 429:  // too many requests
    case 500:
    case 502:
    case 503:
    case 504:
      return true;
    default:
      return false;
  }
}

}  // namespace reshardfs
