// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace reshardfs {

/// A thread that looks after something every kInterval, as long as there is anything to look after.
class Ticker {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kInterval{50};

  /// @param tick returns whether there was anything; must not throw.
  explicit Ticker(std::function<bool(Clock::time_point now)> tick) : tick_(std::move(tick)) {}
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  ~Ticker() { stop(); }

  /// There is something, which the next tick will see. Where no thread can be started nobody looks
  /// after it.
  void want() noexcept;
  /// Ends the ticks; waits for the one that is under way.
  void stop() noexcept;

 private:
  void start() noexcept;
  void keep_ticking() noexcept;

  const std::function<bool(Clock::time_point)> tick_;
  // Who says that there is something looks whether the thread sleeps afterwards; before it sleeps,
  // the thread looks whether there is something. So one of the two sees the other.
  std::atomic<bool> wanted_ = false;
  std::atomic<bool> asleep_ = true;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace reshardfs
