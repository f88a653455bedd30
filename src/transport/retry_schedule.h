// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reshardfs {

/// When a request that has failed is made again: after a random part of a time that doubles ("full
/// jitter"), so that the nodes of a cluster that fail together do not come back together.
class RetrySchedule {
 public:
  using Duration = std::chrono::milliseconds;

  static constexpr Duration kFirst{100};
  static constexpr Duration kLongest{5000};

  /// @param seed of the random numbers.
  explicit RetrySchedule(std::uint64_t seed) noexcept : seed_(seed) {}

  /// The time until the next attempt.
  /// @param at_least what the server asks for; a part of it is added at random.
  Duration next(std::optional<Duration> at_least = std::nullopt) noexcept;

 private:
  std::uint64_t seed_;
  unsigned attempts_ = 0;
};

/// Retry-After (RFC 9110, 10.2.3): seconds, or a date.
/// @param date_seconds what the date is, seconds since the epoch; -1 if it cannot be read.
/// @param now seconds since the epoch.
/// @return nothing if it is neither; at most an hour.
std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text,
                                                           std::int64_t date_seconds,
                                                           std::int64_t now) noexcept;

/// Whether a status may be another one if the request is made again.
bool is_worth_a_retry(long status) noexcept;

}  // namespace reshardfs
