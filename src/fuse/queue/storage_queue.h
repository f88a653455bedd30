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

#include "fuse/queue/closed_sources.h"
#include "fuse/queue/killable_request.h"
#include "fuse/queue/stall_watch.h"
#include "fuse/queue/ticker.h"
#include "fuse/queue/wait_permits.h"
#include "fuse/reply.h"
#include "storage/source_use.h"

namespace reshardfs {

/// Runs work that may wait on the thread that submits it, while its class has permits. Further work
/// waits in queues; threads take work from them after finishing their own. So a read of a fast
/// source needs no change of thread, and there are always threads left to answer lookups and
/// attributes from memory.
///
/// tick() detects a source that does not answer for kStuckAfter. The work that is stuck in it lends
/// its permit to other work, and other work that would read the source is held back, without a
/// thread, until it answers. Every ClosedSources::kProbeInterval, one piece of held work may try
/// it, because a source may be stuck in one place only. While any source is stuck, every other
/// source is read by one piece of work at a time, so that each further stalled source takes only
/// one thread. So stalled sources delay the work that needs them, and other work for some tenths of
/// a second. Keys of work are computed only while a source is stuck, and cost nothing otherwise.
///
/// tick() also answers the requests of killed programs, both for running and for queued work.
class StorageQueue {
 public:
  using Clock = std::chrono::steady_clock;

  using Key = WaitKey;

  static constexpr std::chrono::milliseconds kStuckAfter{100};

  /// Who calls tick(): a thread of the queue, or the queue's user.
  enum class Ticks : std::uint8_t { kByItself, kByHand };

  explicit StorageQueue(Ticks ticks = Ticks::kByItself);
  StorageQueue(const StorageQueue&) = delete;
  StorageQueue& operator=(const StorageQueue&) = delete;
  ~StorageQueue() { stop(); }

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
  /// @param key returns a Key. May run at any time until the work has ended, on any thread.
  /// @param work returns a Reply; must not throw.
  /// @throws std::bad_alloc; then it will not be run.
  template <typename MakeKey, typename Run>
  void submit(KillableRequest::Ptr request, WaitClass kind, MakeKey&& key, Run&& work) {
    submit(std::make_unique<WorkOf<std::decay_t<MakeKey>, std::decay_t<Run>>>(
        std::move(request), kind, std::forward<MakeKey>(key), std::forward<Run>(work)));
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
    Work(KillableRequest::Ptr its_request, WaitClass its_kind)
        : request(std::move(its_request)), kind(its_kind) {}
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    virtual ~Work() = default;
    virtual Key make_key() const = 0;
    virtual Reply run() noexcept = 0;

    const KillableRequest::Ptr request;
    const WaitClass kind;
    SourceUse use;
    // Used only by the thread that runs the work; guarded by the queue's mutex while it is queued.
    Key key;
    bool has_key = false;
    // Guarded by the queue's mutex.
    unsigned ticks = 0;   ///< for which it has been there
    bool stuck = false;   ///< and has lent its permit
    bool told = false;    ///< it was found to be stuck
    Key closes;           ///< what is closed on its account
    bool probes = false;  ///< it may read `probed` although that is closed
    Awaited probed;
    SourceUse::Look seen;
    Clock::time_point seen_at{};
  };
  using Works = std::list<std::unique_ptr<Work>>;

  template <typename MakeKey, typename Run>
  struct WorkOf final : Work {
    WorkOf(KillableRequest::Ptr its_request, WaitClass its_kind, MakeKey its_key, Run its_run)
        : Work(std::move(its_request), its_kind),
          key_maker(std::move(its_key)),
          runner(std::move(its_run)) {}
    Key make_key() const override { return key_maker(); }
    Reply run() noexcept override { return runner(); }

    MakeKey key_maker;
    Run runner;
  };

  void submit(std::unique_ptr<Work> work);
  void run_and_go_on(Works::iterator work) noexcept;
  bool may_run(Works::iterator work) noexcept;
  static bool answer(Work& work) noexcept;
  bool end_and_start_next(Works::iterator& work, bool was_run) noexcept;
  /// Of programs that have waited since the tick before.
  std::vector<KillableRequest::Ptr> waiting_requests();
  void note_oldest() noexcept;
  static Clock::duration stalled_for(const Work& work, Clock::time_point now) noexcept;
  StallWatch::Found find_stalled(Clock::time_point now) const noexcept;
  void give_up_killed() noexcept;
  // These need mutex_.
  template <typename Look>
  void for_each_work(Look&& look) const {
    const auto look_at = [&look](const Works& works) {
      for (const auto& work : works) look(*work);
    };
    look_at(running_);
    look_at(held_);
    for (const Works& due : due_) look_at(due);
  }
  void close_for_others(Work& work);
  bool start_next(Works::iterator& next) noexcept;
  void give_permit_back(const Work& work) noexcept;
  void release_held() noexcept;
  void drop_given_up(Works& from, Works& to) noexcept;
  void look_after(Work& work, Clock::time_point now);
  void close_stuck(Work& work, const Awaited& awaited, Clock::time_point now);
  bool send_probe(const Awaited& awaited) noexcept;
  unsigned startable() const noexcept;

  std::function<void(unsigned)> wake_;
  std::function<void()> taken_;
  std::function<void()> stalled_;
  std::atomic<unsigned> threads_taken_ = 0;
  std::mutex mutex_;
  // All guarded by mutex_, except ClosedSources::any(). They are lists, so that moving work from
  // one to another allocates no memory: a failure could not be reported.
  WaitPermits permits_;
  ClosedSources closed_;
  Works running_;
  std::array<Works, kWaitLimits.size()> due_;  ///< wait for a permit
  Works held_;                                 ///< would read what is closed
  StallWatch stalls_;
  std::optional<Ticker> ticker_;  ///< last: it uses the others
};

}  // namespace reshardfs
