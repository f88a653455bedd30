// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/process/lone_thread.h"

namespace reshardfs {

/// A thread that looks now and then whether a source has changed, so that no other has to wait for
/// the source's storage.
class Refresher {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    /// Requests sooner than this after the last look began are not followed.
    std::chrono::milliseconds fresh_for{1000};
    /// How long after the beginning of a look someone may wait for its end.
    std::chrono::milliseconds patience{200};
    /// It looks without being asked after this time, so that what has been deleted is given up.
    std::chrono::milliseconds idle{30000};
  };

  /// @param refresh looks. @return whether there is more to find out, with a look at once.
  /// @param now decides what is fresh; the patience is always real time.
  Refresher(std::function<bool()> refresh, Limits limits,
            std::function<Clock::time_point()> now = Clock::now);
  Refresher(const Refresher&) = delete;
  Refresher& operator=(const Refresher&) = delete;
  /// Only after stop() has returned true, or without start().
  ~Refresher() = default;

  /// @throws std::system_error, std::bad_alloc
  void start();
  /// Asks for a look, and returns at once.
  void request() noexcept;
  /// Requests a check, and waits for the one that is due or running, but not for one that began
  /// longer ago than the patience.
  void request_and_wait() noexcept;
  /// @return whether the thread has ended; if not, it still waits for the source.
  bool stop(std::chrono::milliseconds limit);

 private:
  void work() noexcept;
  bool ask() noexcept;

  const std::function<bool()> refresh_;
  const Limits limits_;
  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  bool wanted_ = false;   ///< a look is due or under way
  bool started_ = false;  ///< there is a thread, or was
  bool stopping_ = false;
  std::uint64_t looks_ = 0;         ///< finished ones
  Clock::time_point asked_{};       ///< real time of the last request that was followed
  Clock::time_point stale_from_{};  ///< by now_
  LoneThread thread_;  ///< not guarded: used only by the thread that starts and stops it
};

}  // namespace reshardfs
