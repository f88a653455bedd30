// SPDX-License-Identifier: Apache-2.0
#include "fuse/worker_threads.h"

#include <linux/fuse.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "base/process/resource_limits.h"
#include "base/process/signals.h"
#include "fuse/event_log.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

/// Until a request is taken again when there was no memory for it. libfuse logs each attempt.
constexpr std::chrono::milliseconds kMemoryPause{100};
/// How often to wait for that before the mount is live, because the mount command waits, too.
constexpr int kPausesAtStart = 3;

/// libfuse allocates the memory of a receive buffer.
struct ReceiveBuffer {
  ReceiveBuffer() = default;
  ReceiveBuffer(const ReceiveBuffer&) = delete;
  ReceiveBuffer& operator=(const ReceiveBuffer&) = delete;
  ~ReceiveBuffer() { std::free(buffer.mem); }

  fuse_buf buffer{};
};

/// The requests are answered by the threads that there are.
void warn_of_lack(const std::exception& error) noexcept {
  try {
    log_warning(LogEvent::kThreadsLacking,
                "cannot start another thread, the mount may answer slowly: {}",
                why_no_thread(error));
  } catch (const std::exception&) {
    // Out of memory: not even a line of the log can be made.
  }
}

}  // namespace

WorkerThreads::WorkerThreads(fuse_session* session, ServedTree& served, const WakePipe& events)
    : session_(session), served_(served), events_(events) {
  served_.storage.on_spare_permits([this](unsigned count) { kick_idle(count); });
  served_.storage.on_thread_taken([this] { keep_one_idle(); });
  served_.storage.on_stall([this] { events_.post(Event::kStall); });
}

void WorkerThreads::start(std::vector<std::string> again) {
  {
    const std::lock_guard lock(mutex_);
    for (std::string& request : again) again_.push_back(std::move(request));
    // Threads from before the pause.
    threads_.remove_if([](Thread& thread) {
      if (!thread.ended) return false;
      thread.thread.join();
      return true;
    });
  }
  paused_ = false;
  // A mount that was taken over gets no INIT: it is live at once.
  if (served_.initialised && !live_.exchange(true)) events_.post(Event::kLive);
  start_one();
}

bool WorkerThreads::has_threads_enough() const noexcept {
  return running_ >= std::min(kMaxThreads, kMemoryThreads + served_.storage.threads_taken());
}

bool WorkerThreads::start_one() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || paused_ || idle_ > 0 || has_threads_enough()) return false;
  const NoSignals none(kKickSignal);
  Thread& own = threads_.emplace_back();
  ++running_;
  ++idle_;
  try {
    own.thread = std::thread([this, &own] { work(own); });
  } catch (...) {
    --running_;
    --idle_;
    threads_.pop_back();
    throw;
  }
  return true;
}

/// Each thread calls it when it is no longer idle, and again when it takes work that may wait: so
/// the last idle thread finds that there are too few.
void WorkerThreads::keep_one_idle() noexcept {
  if (idle_ > 0 || has_threads_enough()) return;
  try {
    if (start_one()) told_of_lack_ = false;
  } catch (const std::exception& error) {  // std::system_error, or std::bad_alloc
    // Every request comes here while the lack lasts.
    if (!told_of_lack_.exchange(true)) warn_of_lack(error);
  }
}

void WorkerThreads::work(Thread& own) noexcept {
  const bool pauses = answer_requests(own);
  --idle_;
  --running_;
  own.receives = false;  // now: pause() waits for threads that are idle no more
  if (!pauses) {
    events_.post(Event::kEnded);
  } else if (!paused_) {
    // Too late for that pause: start() may have counted on this thread.
    keep_one_idle();
  }
  own.ended = true;  // last: start() holds the lock when it joins
}

/// For work that may take long: another thread waits for requests meanwhile.
template <typename Work>
void WorkerThreads::while_busy(Work&& work) {
  --idle_;
  keep_one_idle();
  work();
  ++idle_;
}

/// @return whether it ends for a pause. Then it still counts as receiving.
bool WorkerThreads::answer_requests(Thread& own) {
  ReceiveBuffer receive;
  int failed = 0;
  while (!stopping_) {
    // First said, then asked: pause() must not miss a thread that is about to.
    own.receives = true;
    if (paused_) return true;
    if (auto request = take_again()) {
      own.receives = false;
      fuse_buf buffer{};
      buffer.mem = request->data();
      buffer.size = request->size();
      process(buffer);
      continue;
    }
    const int received = fuse_session_receive_buf(session_, &receive.buffer);
    own.receives = false;
    if (received == -EINTR) {
      // Kicked, to end or because there is work that waits for a thread.
      if (!stopping_ && !paused_) while_busy([this] { served_.storage.help(); });
      continue;
    }
    if (received == -EAGAIN) continue;
    if (received == -ENOMEM && (live_ || ++failed <= kPausesAtStart)) {
      // For the buffer, or in the kernel, which keeps the request.
      std::this_thread::sleep_for(kMemoryPause);
      continue;
    }
    // The kernel says so instead of ENODEV if the mount goes away while a request is taken.
    if (received == -ECONNABORTED) return false;
    if (received < 0) error_ = -received;
    if (received <= 0) return false;

    process(receive.buffer);
  }
  return false;
}

void WorkerThreads::process(fuse_buf& buffer) {
  fuse_in_header header{};
  std::memcpy(&header, buffer.mem, std::min(buffer.size, sizeof header));
  request_number() = header.unique;
  while_busy([&] { fuse_session_process_buf(session_, &buffer); });
  if (!live_ && served_.initialised && !live_.exchange(true)) events_.post(Event::kLive);
}

std::optional<std::string> WorkerThreads::take_again() {
  const std::lock_guard lock(mutex_);
  if (again_.empty()) return std::nullopt;
  std::string request = std::move(again_.front());
  again_.pop_front();
  return request;
}

void WorkerThreads::pause() noexcept {
  constexpr std::chrono::milliseconds kKickInterval{1};
  paused_ = true;
  for (;; std::this_thread::sleep_for(kKickInterval)) {
    // Again and again: a thread may have been about to wait for a request when it was kicked.
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (Thread& thread : threads_) {
      if (!thread.receives) continue;
      any = true;
      ::pthread_kill(thread.thread.native_handle(), kKickSignal);
    }
    if (!any) return;
  }
}

/// A thread may just have begun to wait: then the kick is lost, and comes again.
void WorkerThreads::kick_idle(unsigned count) noexcept {
  const std::lock_guard lock(mutex_);
  for (Thread& thread : threads_) {
    if (count == 0 || stopping_) return;
    if (!thread.receives || !thread.thread.joinable()) continue;
    ::pthread_kill(thread.thread.native_handle(), kKickSignal);
    --count;
  }
}

bool WorkerThreads::stop(std::chrono::milliseconds limit,
                         const std::function<void(Event)>& on_event) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kKickInterval{10};
  constexpr std::chrono::milliseconds kHurriedLimit{100};
  stopping_ = true;
  auto deadline = Clock::now() + limit;
  while (running_ > 0) {
    {
      // Again and again: a thread may have been about to wait for a request when it was kicked.
      const std::lock_guard lock(mutex_);
      for (Thread& thread : threads_) ::pthread_kill(thread.thread.native_handle(), kKickSignal);
    }
    const auto event = events_.wait_for(kKickInterval);
    if (event && on_event) on_event(*event);
    if (event == Event::kSignal) deadline = std::min(deadline, Clock::now() + kHurriedLimit);
    if (Clock::now() >= deadline) break;
  }
  if (running_ > 0) return false;
  // Out of the list first: kick_idle(), which the storage queue calls, must find none that has been
  // joined. Without the lock: a thread may still want it at its end.
  std::list<Thread> ending;
  {
    const std::lock_guard lock(mutex_);
    ending.swap(threads_);
  }
  for (Thread& thread : ending) thread.thread.join();
  return true;
}

}  // namespace reshardfs
