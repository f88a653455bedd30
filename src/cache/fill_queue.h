// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/process/lone_thread.h"
#include "cache/record.h"
#include "cache/record_writer.h"

namespace reshardfs {

/// Hands records to a thread that writes them, so that readers do not wait for the cache's disk.
/// Every member function may be called from any number of threads at once.
class FillQueue {
 public:
  /// Bytes that may wait to be written; what comes while there are more is not kept.
  static constexpr std::size_t kMaxBytes = 64 << 20;

  FillQueue(std::unique_ptr<RecordWriter> writer, std::shared_ptr<CacheCounters> counters);
  FillQueue(const FillQueue&) = delete;
  FillQueue& operator=(const FillQueue&) = delete;
  /// Drops what waits. If the disk hangs the thread is left alone with it after two seconds.
  ~FillQueue();

  /// Starts the thread, if that is not done yet. Not before: it would not survive a fork.
  void start() noexcept;
  void put(const RecordId& id, Bytes content) noexcept;
  /// Waits until nothing waits, or until a time.
  void flush(std::chrono::steady_clock::time_point until) noexcept;

 private:
  struct State;
  static void run(State& state) noexcept;

  const std::shared_ptr<State> state_;
  std::atomic<bool> started_ = false;
  std::mutex start_mutex_;
  LoneThread thread_;  ///< guarded by start_mutex_
};

}  // namespace reshardfs
