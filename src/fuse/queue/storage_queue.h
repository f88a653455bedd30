// SPDX-License-Identifier: Apache-2.0
/// The only place where requests wait: for storage, for a computation, or for their turn.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "fuse/queue/killable_request.h"
#include "fuse/queue/stall_watch.h"
#include "fuse/queue/ticker.h"
#include "fuse/queue/wait_permits.h"
#include "fuse/reply.h"
#include "storage/stuck_read.h"
#include "vfs/inode_number.h"

namespace reshardfs {

/// Runs work that may wait on the thread that submits it, while its class has permits. Further work
/// waits in queues; threads take work from them after finishing their own. So a read of a fast
/// source needs no change of thread, and there are always threads left to answer lookups and
/// attributes from memory.
///
/// What hangs, the storage knows. Work that meets a read that is stuck leaves its thread, and is
/// done again when the storage says that it can go on (StuckRead). What a thread cannot leave, such
/// as a call of the kernel that does not return, is late after kLateAfter: it gives its permit to
/// other work.
///
/// tick() looks for both, and answers the requests of killed programs, for running and for queued
/// work.
class StorageQueue {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kLateAfter{100};

  /// Who calls tick(): a thread of the queue, or the queue's user.
  enum class Ticks : std::uint8_t { kByItself, kByHand };

  explicit StorageQueue(Ticks ticks = Ticks::kByItself);
  StorageQueue(const StorageQueue&) = delete;
  StorageQueue& operator=(const StorageQueue&) = delete;
  ~StorageQueue() = default;

  /// @param wake makes the given number of idle threads call help(); must not throw. Work that they
  ///        do not take is offered again at the next tick. Call this before the first submit().
  void on_spare_permits(std::function<void(unsigned threads)> wake) { wake_ = std::move(wake); }
  /// @param note runs whenever a thread begins work, on that thread; must not throw. Call this
  ///        before the first submit().
  void on_thread_taken(std::function<void()> note) { taken_ = std::move(note); }

  /// @param note runs on the ticks' thread when stall() has news; must neither wait nor throw. Call
  ///        this before the first submit().
  void on_stall(std::function<void()> note) { stalled_ = std::move(note); }
  /// The next news of requests that wait for their source for long; nullopt: none.
  std::optional<StallWatch::Stall> stall() noexcept;

  /// The number of threads that are running work.
  unsigned threads_taken() const noexcept { return threads_taken_; }

  /// Runs `work`, answers the request with its result, and continues with queued work. If `work`
  /// must wait for a permit, queues it and returns at once. Work whose request has been given up is
  /// not run.
  /// @param request the request to answer; nullptr: none.
  /// @param node that the work is for; 0: none.
  /// @param work returns a Reply; throws nothing but StuckRead, and then runs once more.
  /// @throws std::bad_alloc; then it will not be run.
  template <typename Run>
  void submit(KillableRequest::Ptr request, WaitClass kind, InodeNumber node, Run&& work) {
    submit(std::make_unique<WorkOf<std::decay_t<Run>>>(std::move(request), kind, node,
                                                       std::forward<Run>(work)));
  }

  /// Runs queued work for which there are permits, if there is any.
  void help() noexcept;

  /// Checks all work once. Only one thread may call it at a time.
  /// @return whether there is any.
  bool tick(Clock::time_point now) noexcept;

  /// Ends the ticks. Call this before the requests' session ends. Does not wait for storage.
  void stop() noexcept {
    if (ticker_) ticker_->stop();
  }

 private:
  struct Work {
    Work(KillableRequest::Ptr its_request, WaitClass its_kind, InodeNumber its_node)
        : request(std::move(its_request)), kind(its_kind), node(its_node) {}
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    virtual ~Work() = default;
    virtual Reply run() = 0;

    const KillableRequest::Ptr request;
    const WaitClass kind;
    const InodeNumber node;
    LeftReads left_reads;  ///< of the thread that runs it
    // Guarded by the queue's mutex.
    unsigned ticks = 0;                    ///< for which it has been there
    std::optional<Clock::time_point> ran;  ///< the first tick at which it was running
    bool late = false;                     ///< and has given up its permit
    StuckRead stuck;                       ///< what it has left
  };
  using Works = std::list<std::unique_ptr<Work>>;

  template <typename Run>
  struct WorkOf final : Work {
    WorkOf(KillableRequest::Ptr its_request, WaitClass its_kind, InodeNumber its_node, Run its_run)
        : Work(std::move(its_request), its_kind, its_node), runner(std::move(its_run)) {}
    Reply run() override { return runner(); }

    Run runner;
  };

  void submit(std::unique_ptr<Work> work);
  void run_and_go_on(Works::iterator work) noexcept;
  static std::optional<StuckRead> answer(Work& work) noexcept;
  bool end_and_start_next(Works::iterator& work, std::optional<StuckRead> stuck) noexcept;
  /// Of programs that have waited since the tick before.
  std::vector<KillableRequest::Ptr> waiting_requests();
  void give_up_killed() noexcept;
  // These need mutex_.
  template <typename Look>
  void for_each_work(Look&& look) const {
    const auto look_at = [&look](const Works& works) {
      for (const auto& work : works) look(*work);
    };
    look_at(running_);
    look_at(left_);
    for (const Works& due : due_) look_at(due);
  }
  Works& due(const Work& work) noexcept { return due_[static_cast<std::size_t>(work.kind)]; }
  /// Whether work for its node runs that is not to run at the same time.
  bool is_node_busy(const Work& work) const noexcept;
  bool start_next(Works::iterator& next) noexcept;
  void give_permit_back(const Work& work) noexcept;
  unsigned startable() const noexcept;
  void note_late(Work& work, Clock::time_point now, bool hangs) noexcept;
  void resume_left() noexcept;
  static void drop_given_up(Works& from, Works& to) noexcept;
  void note_oldest() noexcept;
  StallWatch::Found find_stalled(Clock::time_point now, bool hangs) const noexcept;

  std::function<void(unsigned)> wake_;
  std::function<void()> taken_;
  std::function<void()> stalled_;
  std::atomic<unsigned> threads_taken_ = 0;
  std::mutex mutex_;
  // All guarded by mutex_. They are lists, so that moving work from
  // one to another allocates no memory: a failure could not be reported.
  WaitPermits permits_;
  Works running_;
  std::array<Works, kWaitLimits.size()> due_;  ///< wait for a permit
  Works left_;                                 ///< wait for what hangs, without a permit
  StallWatch stalls_;
  std::optional<Ticker> ticker_;  ///< last: it uses the others
};

}  // namespace reshardfs
