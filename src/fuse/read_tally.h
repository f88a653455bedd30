// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/process/counters.h"

namespace reshardfs {

/// Counts one read, from when it has come to when it is answered. One that is neither delivered nor
/// failed was given up.
class ReadTally {
 public:
  ReadTally() noexcept { counters().read_began(); }
  ReadTally(ReadTally&& other) noexcept
      : arrived_(other.arrived_), open_(std::exchange(other.open_, false)) {}
  ReadTally& operator=(ReadTally&&) = delete;
  ~ReadTally() { failed(EINTR); }

  /// To be called before its program gets the bytes.
  void delivers(std::uint64_t bytes) noexcept {
    if (!std::exchange(open_, false)) return;
    counters().read_delivers(bytes);
    counters().read_done(Clock::now() - arrived_);
  }
  /// To be called before its program gets the errno.
  void failed(int error) noexcept {
    if (std::exchange(open_, false)) counters().read_failed(error, Clock::now() - arrived_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point arrived_ = Clock::now();
  bool open_ = true;
};

}  // namespace reshardfs
