// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fuse/libfuse.h"
#include "fuse/served_tree.h"
#include "fuse/wake_pipe.h"

namespace reshardfs {

/// The signal that interrupts a worker's wait for the kernel's next request. It has no other use,
/// and a process without a handler ignores it.
inline constexpr int kKickSignal = SIGURG;

/// The threads that take requests from the kernel and answer them. When the last idle one gets
/// something to do, another is started, but for threads that run work of the storage queue no more
/// than kMemoryThreads: where these are all busy, processors are what is missing. Threads stay
/// until the end.
///
/// libfuse's own loop is not used, because at its end it waits for its threads without a limit (a
/// read of a stalled source would keep the process), because it drops a request that came together
/// with the wish to end, and because a signal that reaches another thread than the main one does
/// not wake it.
class WorkerThreads {
 public:
  /// Each thread that ends posts Event::kEnded; Event::kLive is posted when INIT is answered.
  WorkerThreads(fuse_session* session, ServedTree& served, const WakePipe& events);
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;
  /// Requires that stop() has returned true, or start() was not called.
  ~WorkerThreads() = default;

  /// @param again requests that another process, or these threads before pause(), have taken and
  ///        not answered: they come first.
  /// @throws std::system_error if not even one thread can be started.
  void start(std::vector<std::string> again = {});
  /// Returns when no thread takes requests any more. Threads finish the requests that they have.
  /// start() ends the pause.
  void pause() noexcept;

  /// Lets every thread finish the request that it has and end. A signal cuts the time short.
  /// @param on_event called with what comes meanwhile. Must not throw.
  /// @return whether all have ended; if not, they still use the session and the served tree.
  bool stop(std::chrono::milliseconds limit, const std::function<void(Event)>& on_event = {});

  /// The errno that made a thread give up, or 0. After stop().
  int error() const noexcept { return error_; }

 private:
  struct Thread {
    std::thread thread;
    std::atomic<bool> receives = false;  ///< waits for a request, or is about to
    std::atomic<bool> ended = false;
  };

  bool has_threads_enough() const noexcept;
  /// @return whether it was needed. @throws std::system_error, std::bad_alloc
  bool start_one();
  void keep_one_idle() noexcept;
  void work(Thread& own) noexcept;
  bool answer_requests(Thread& own);
  std::optional<std::string> take_again();
  void process(fuse_buf& buffer);
  template <typename Work>
  void while_busy(Work&& work);
  void kick_idle(unsigned count) noexcept;

  fuse_session* const session_;
  ServedTree& served_;
  const WakePipe& events_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> paused_ = false;
  std::atomic<bool> live_ = false;
  std::atomic<int> error_ = 0;
  std::atomic<bool> told_of_lack_ = false;  ///< of threads, until one can be started again
  std::atomic<unsigned> running_ = 0;
  std::atomic<unsigned> idle_ = 0;
  std::mutex mutex_;
  std::list<Thread> threads_;      ///< guarded by mutex_
  std::deque<std::string> again_;  ///< guarded by mutex_
};

}  // namespace reshardfs
