// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace reshardfs {

/// A thread that calls a function every kInterval while there is anything to check.
class Ticker {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kInterval{50};

  /// @param tick returns whether there was anything; must not throw.
  explicit Ticker(std::function<bool(Clock::time_point now)> tick) : tick_(std::move(tick)) {}
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  ~Ticker() { stop(); }

  /// Requests a tick. If no thread can be started, there will be none.
  void want() noexcept;
  /// Ends the ticks; waits for one that is running.
  void stop() noexcept;

 private:
  void start() noexcept;
  void keep_ticking() noexcept;

  const std::function<bool(Clock::time_point)> tick_;
  // want() sets this and then checks whether the thread sleeps; the thread checks this before it
  // sleeps. So no request is missed.
  std::atomic<bool> wanted_ = false;
  std::atomic<bool> asleep_ = true;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace reshardfs
