// SPDX-License-Identifier: Apache-2.0
#include "fuse/worker_threads.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include <spdlog/spdlog.h>

#include "fuse/signals.h"

namespace reshardfs {
namespace {

/// Until a request is taken again when there was no memory for it. libfuse logs each attempt.
constexpr std::chrono::milliseconds kMemoryPause{100};

/// libfuse allocates the memory of a receive buffer.
struct ReceiveBuffer {
  ReceiveBuffer() = default;
  ReceiveBuffer(const ReceiveBuffer&) = delete;
  ReceiveBuffer& operator=(const ReceiveBuffer&) = delete;
  ~ReceiveBuffer() { std::free(buffer.mem); }

  fuse_buf buffer{};
};

}  // namespace

WorkerThreads::WorkerThreads(fuse_session* session, const ServedTree& served,
                             const WakePipe& events)
    : session_(session), served_(served), events_(events) {
  threads_.reserve(kMaxThreads);
}

void WorkerThreads::start() {
  start_one();
}

void WorkerThreads::start_one() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || threads_.size() >= kMaxThreads) return;
  const SignalsBlocked blocked;
  ++running_;
  ++idle_;
  try {
    threads_.emplace_back([this] { work(); });
  } catch (...) {
    --running_;
    --idle_;
    throw;
  }
}

void WorkerThreads::replace_idle_thread() noexcept {
  try {
    start_one();
    told_of_lack_ = false;
  } catch (const std::system_error& error) {
    // This comes with every request for as long as it lasts.
    if (told_of_lack_.exchange(true)) return;
    spdlog::warn("cannot start another thread, the mount may answer slowly: {}", error.what());
  }
}

void WorkerThreads::work() noexcept {
  answer_requests();
  --running_;
  events_.post(Event::kEnded);
}

void WorkerThreads::answer_requests() {
  ReceiveBuffer receive;
  while (!stopping_) {
    const int received = fuse_session_receive_buf(session_, &receive.buffer);
    if (received == -EINTR || received == -EAGAIN) continue;
    if (received == -ENOMEM) {
      // For the buffer, or in the kernel, which keeps the request.
      std::this_thread::sleep_for(kMemoryPause);
      continue;
    }
    if (received < 0) error_ = -received;
    if (received <= 0) return;

    if (--idle_ == 0) replace_idle_thread();
    fuse_session_process_buf(session_, &receive.buffer);
    ++idle_;
    if (!live_ && served_.initialised && !live_.exchange(true)) events_.post(Event::kLive);
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
      for (std::thread& thread : threads_) ::pthread_kill(thread.native_handle(), kKickSignal);
    }
    const bool hurry = events_.wait_for(kKickInterval) == Event::kSignal;
    if (hurry) deadline = std::min(deadline, Clock::now() + kHurriedLimit);
    if (Clock::now() >= deadline) break;
  }
  if (running_ > 0) return false;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return true;
}

}  // namespace reshardfs
