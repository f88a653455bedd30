// SPDX-License-Identifier: Apache-2.0
#include "cache/fill_queue.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <new>
#include <span>
#include <stop_token>
#include <utility>

#include "base/process/fault_report.h"
#include "base/process/resource_limits.h"
#include "cache/record.h"

namespace reshardfs {
namespace {

/// For the end of the thread. A disk that hangs has it for longer.
constexpr std::chrono::seconds kDiskPatience{2};

struct Waiting {
  RecordId id;
  UnfilledBytes record;
  std::size_t size = 0;  ///< of the record, with its header
};

}  // namespace

struct FillQueue::State {
  std::unique_ptr<RecordWriter> writer;
  std::shared_ptr<CacheCounters> counters;
  std::stop_source stop;
  std::mutex mutex;
  std::condition_variable has_work;
  std::condition_variable is_idle;
  std::deque<Waiting> waiting;  ///< guarded by mutex, as those below
  std::size_t bytes = 0;        ///< of what waits, and of what is being written
  bool runs = false;
  bool busy = false;
};

FillQueue::FillQueue(std::unique_ptr<RecordWriter> writer, std::shared_ptr<CacheCounters> counters)
    : state_(std::make_shared<State>()) {
  state_->writer = std::move(writer);
  state_->counters = std::move(counters);
}

FillQueue::~FillQueue() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop.request_stop();
    state_->counters->not_kept += state_->waiting.size();
    state_->waiting.clear();
    state_->has_work.notify_all();
  }
  thread_.ends_within(kDiskPatience);
}

void FillQueue::start() noexcept {
  if (started_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(start_mutex_);
  if (started_) return;
  try {
    const std::lock_guard state_lock(state_->mutex);
    // Without signals: a file that becomes too large is an error.
    thread_.start([state = state_] { run(*state); });
    state_->runs = true;
    state_->busy = true;
  } catch (const std::exception& error) {
    ++state_->counters->failures;
    report_fault(LogEvent::kCacheFailed, "the cache has no thread",
                 "the cache keeps nothing, as it cannot start a thread: " + why_no_thread(error));
  }
  // Not again if that failed: each read would have to wait for it.
  started_.store(true, std::memory_order_release);
}

void FillQueue::put(const RecordId& id, Bytes content) noexcept {
  const std::size_t size = kHeaderBytes + content.size();
  const auto has_place = [&] {
    return state_->runs && (state_->waiting.empty() || state_->bytes + size <= kMaxBytes);
  };
  try {
    {
      const std::lock_guard lock(state_->mutex);
      if (std::any_of(state_->waiting.begin(), state_->waiting.end(),
                      [&](const Waiting& other) { return other.id == id; })) {
        return;
      }
      if (!state_->writer->is_ready() || !has_place()) {
        ++state_->counters->not_kept;
        return;
      }
    }
    UnfilledBytes record = unfilled_bytes(size);
    std::copy(content.begin(), content.end(), record.get() + kHeaderBytes);
    const std::lock_guard lock(state_->mutex);
    if (!has_place()) {
      ++state_->counters->not_kept;
      return;
    }
    state_->waiting.push_back({id, std::move(record), size});
    state_->bytes += size;
    state_->has_work.notify_one();
  } catch (const std::bad_alloc&) {
    ++state_->counters->not_kept;
  }
}

void FillQueue::flush(std::chrono::steady_clock::time_point until) noexcept {
  std::unique_lock lock(state_->mutex);
  state_->is_idle.wait_until(
      lock, until, [&] { return !state_->runs || (state_->waiting.empty() && !state_->busy); });
}

void FillQueue::run(State& state) noexcept {
  const std::stop_token stop = state.stop.get_token();
  state.writer->tidy(stop);
  std::unique_lock lock(state.mutex);
  while (true) {
    state.busy = false;
    if (state.waiting.empty()) state.is_idle.notify_all();
    state.has_work.wait(lock, [&] { return stop.stop_requested() || !state.waiting.empty(); });
    if (stop.stop_requested()) break;
    Waiting next = std::move(state.waiting.front());
    state.waiting.pop_front();
    state.busy = true;
    lock.unlock();
    if (state.writer->is_ready()) {
      state.writer->keep(next.id, std::span(next.record.get(), next.size), stop);
    } else {
      ++state.counters->not_kept;
    }
    next.record.reset();
    lock.lock();
    state.bytes -= next.size;
  }
  state.runs = false;
  state.is_idle.notify_all();
}

}  // namespace reshardfs
