// SPDX-License-Identifier: Apache-2.0
#include "fuse/worker_threads.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>

#include <spdlog/spdlog.h>

#include "base/resource_limits.h"
#include "fuse/signals.h"

namespace reshardfs {
namespace {

/// Until a request is taken again when there was no memory for it. libfuse logs each attempt.
constexpr std::chrono::milliseconds kMemoryPause{100};
/// How often that is awaited before the mount is live: whoever mounts waits for it.
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
    spdlog::warn("cannot start another thread, the mount may answer slowly: {}",
                 why_no_thread(error));
  } catch (const std::exception&) {
    // Nor is there memory to say so.
  }
}

}  // namespace

WorkerThreads::WorkerThreads(fuse_session* session, ServedTree& served, const WakePipe& events)
    : session_(session), served_(served), events_(events) {
  served_.storage.on_spare_permits([this](unsigned count) { kick_idle(count); });
  served_.storage.on_thread_taken([this] { keep_one_idle(); });
}

void WorkerThreads::start() {
  start_one();
}

bool WorkerThreads::has_threads_enough() const noexcept {
  return running_ >= std::min(kMaxThreads, kMemoryThreads + served_.storage.threads_taken());
}

bool WorkerThreads::start_one() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || idle_ > 0 || has_threads_enough()) return false;
  const SignalsBlocked blocked;
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

/// To be called by each thread that is no longer idle, and again when it is taken for work that may
/// wait: so whoever is the last to be taken finds that there are too few.
void WorkerThreads::keep_one_idle() noexcept {
  if (idle_ > 0 || has_threads_enough()) return;
  try {
    if (start_one()) told_of_lack_ = false;
  } catch (const std::exception& error) {  // std::system_error, or std::bad_alloc
    // This comes with every request for as long as it lasts.
    if (!told_of_lack_.exchange(true)) warn_of_lack(error);
  }
}

void WorkerThreads::work(Thread& own) noexcept {
  answer_requests(own);
  --running_;
  events_.post(Event::kEnded);
}

/// For what may take long: there shall be a thread that waits for requests meanwhile.
template <typename Work>
void WorkerThreads::while_busy(Work&& work) {
  --idle_;
  keep_one_idle();
  work();
  ++idle_;
}

void WorkerThreads::answer_requests(Thread& own) {
  ReceiveBuffer receive;
  int failed = 0;
  while (!stopping_) {
    own.receives = true;
    const int received = fuse_session_receive_buf(session_, &receive.buffer);
    own.receives = false;
    if (received == -EINTR) {
      // Kicked, to end or because there is work that waits for a thread.
      if (!stopping_) while_busy([this] { served_.storage.help(); });
      continue;
    }
    if (received == -EAGAIN) continue;
    if (received == -ENOMEM && (live_ || ++failed <= kPausesAtStart)) {
      // For the buffer, or in the kernel, which keeps the request.
      std::this_thread::sleep_for(kMemoryPause);
      continue;
    }
    if (received < 0) error_ = -received;
    if (received <= 0) return;

    while_busy([&] { fuse_session_process_buf(session_, &receive.buffer); });
    if (!live_ && served_.initialised && !live_.exchange(true)) events_.post(Event::kLive);
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

bool WorkerThreads::stop(std::chrono::milliseconds limit) {
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
    const bool hurry = events_.wait_for(kKickInterval) == Event::kSignal;
    if (hurry) deadline = std::min(deadline, Clock::now() + kHurriedLimit);
    if (Clock::now() >= deadline) break;
  }
  if (running_ > 0) return false;
  for (Thread& thread : threads_) thread.thread.join();
  threads_.clear();
  return true;
}

}  // namespace reshardfs
