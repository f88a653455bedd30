// SPDX-License-Identifier: Apache-2.0
/// The one place where requests wait: for storage, for a computation, for their turn.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "fuse/killable_request.h"
#include "fuse/reply.h"
#include "storage/source_use.h"
#include "vfs/inode_number.h"

namespace reshardfs {

/// What work waits for.
enum class WaitClass : std::uint8_t {
  kRead,       ///< the bytes of a file
  kAttribute,  ///< an attribute that may cost a read of the whole file
  kMade,       ///< what is computed from memory: the report, the plan, a listed attribute
  kLook,       ///< a look whether the source has changed
  kDirectory,  ///< what a pending directory holds
  kFile,       ///< which source file equals one that is opened
};

/// How much of a class may be under way.
struct WaitLimits {
  /// Work that may run at once.
  unsigned permits = 0;
  /// Work that may be stuck beside it: its permits have been given to others.
  unsigned stuck = 0;
  /// Of work with the same key one runs at a time; the others mostly find it done.
  bool one_at_a_time = false;
};

/// By WaitClass.
inline constexpr std::array<WaitLimits, 6> kWaitLimits = {{
    {.permits = 16, .stuck = 96},
    {.permits = 4, .stuck = 16},
    {.permits = 4},
    {.permits = 4},
    {.permits = 4, .stuck = 16, .one_at_a_time = true},
    {.permits = 4, .stuck = 16, .one_at_a_time = true},
}};

/// Runs work that may wait on the threads that bring it, as long as its class has permits; further
/// work waits in queues, which are emptied by the threads whose own work has ended. So a read of a
/// quick source costs no change of thread, and whatever waits, there are always threads that answer
/// lookups and attributes from memory.
///
/// A source that does not answer for kStuckAfter is found out by tick(): the work that is stuck in
/// it gives its permit to other work, and other work that would read it is held back, without a
/// thread, until it answers. Every kProbeInterval one piece of held work is let go to try it: a
/// source may be stuck at one place only. While any source is stuck, any other is read by one piece
/// of work at a time, so that each further stalled source takes one thread. So stalled sources
/// delay what needs them, and for some tenths of a second what does not. What a piece of work reads
/// is asked for only while a source is stuck: it costs nothing otherwise.
///
/// Killed programs are answered by tick(), too, wherever their work is.
class StorageQueue {
 public:
  using Clock = std::chrono::steady_clock;

  /// What work waits for: sources, or (kDirectory, kFile) a node.
  struct Awaited {
    const ByteSource* source = nullptr;
    InodeNumber node = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
    auto operator<=>(const Awaited&) const = default;
  };
  using Key = std::vector<Awaited>;

  static constexpr std::chrono::milliseconds kTickInterval{50};
  static constexpr std::chrono::milliseconds kStuckAfter{100};
  static constexpr std::chrono::milliseconds kProbeInterval{500};

  /// Whose tick() it is: a thread of the queue's own, or whoever calls it.
  enum class Ticks : std::uint8_t { kByItself, kByHand };

  explicit StorageQueue(Ticks ticks = Ticks::kByItself) noexcept;
  StorageQueue(const StorageQueue&) = delete;
  StorageQueue& operator=(const StorageQueue&) = delete;
  ~StorageQueue() { stop(); }

  /// @param wake gets idle threads to call help(), as many as it is told; must not throw. Work
  ///        that they do not take is offered again at the next tick. Before the first submit().
  void on_spare_permits(std::function<void(unsigned threads)> wake) { wake_ = std::move(wake); }
  /// @param note runs whenever a thread has been taken for work, on that thread; must not throw.
  ///        Before the first submit().
  void on_thread_taken(std::function<void()> note) { taken_ = std::move(note); }

  /// Threads that are running work, which may wait.
  unsigned threads_taken() const noexcept { return threads_taken_; }

  /// Runs `work`, answers the request with what it returns, and goes on with queued work; or, if it
  /// must wait, queues it and returns at once. Work whose request has been given up is not run.
  /// @param request who is to be answered; nullptr: nobody.
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

  /// Looks after all work once. By one thread at a time.
  /// @return whether there is any.
  bool tick(Clock::time_point now) noexcept;

  /// Ends the ticks: to be called before the requests' session ends. Does not wait for storage.
  void stop() noexcept;

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
    // Of the thread that runs it, and while it is queued guarded by the queue's mutex.
    Key key;
    bool has_key = false;
    // Guarded by the queue's mutex.
    unsigned ticks = 0;   ///< for which it has been there
    bool stuck = false;   ///< and has given its permit back
    bool told = false;    ///< it was found to be stuck
    Key closes;           ///< what is in closed_ on its account
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

  /// What work is held back from: it is stuck, or used by one that has it for itself.
  struct Closed {
    bool stuck = false;
    Clock::time_point since{};  ///< when it was found to be stuck
    bool probed = false;        ///< a piece of work is on its way to try it
  };

  static constexpr std::size_t kClasses = kWaitLimits.size();
  static const WaitLimits& limits(const Work& work) noexcept {
    return kWaitLimits[static_cast<std::size_t>(work.kind)];
  }

  void submit(std::unique_ptr<Work> work);
  void start_ticks_locked();
  void keep_ticking() noexcept;
  void run_and_go_on(Works::iterator work) noexcept;
  bool may_run(Works::iterator work) noexcept;
  static bool answer(Work& work) noexcept;
  bool end_and_start_next(Works::iterator& work, bool was_run) noexcept;
  /// Of programs that have waited since the tick before.
  std::vector<KillableRequest::Ptr> waiting_requests();
  void give_up_killed() noexcept;
  // These need mutex_.
  bool is_held_back(const Work& work) const noexcept;
  void close_for_others(Work& work);
  bool start_next(Works::iterator& next) noexcept;
  void give_permit_back(const Work& work) noexcept;
  void reopen(const Awaited& awaited) noexcept;
  void release_held() noexcept;
  void drop_given_up(Works& from, Works& to) noexcept;
  void look_after(Work& work, Clock::time_point now);
  void close_stuck(Work& work, const Awaited& awaited, Clock::time_point now);
  void send_probes(Clock::time_point now) noexcept;
  unsigned startable() const noexcept;

  const Ticks ticks_;
  std::function<void(unsigned)> wake_;
  std::function<void()> taken_;
  std::atomic<unsigned> threads_taken_ = 0;
  std::mutex mutex_;
  // All guarded by mutex_. Lists, since work that moves on must not need memory: there is nobody
  // left to tell that there is none.
  std::array<unsigned, kClasses> permits_{};
  std::array<unsigned, kClasses> stuck_{};
  Works running_;
  std::array<Works, kClasses> due_;  ///< wait for a permit
  Works held_;                       ///< would read what is closed
  std::map<Awaited, Closed> closed_;
  std::size_t stuck_sources_ = 0;         ///< in closed_
  std::atomic<bool> any_closed_ = false;  ///< to be looked at without the mutex
  // Of the thread that ticks; guarded by mutex_ but for the thread itself.
  std::condition_variable wanted_;
  bool asleep_ = true;
  bool stopping_ = false;
  std::thread ticker_;
};

}  // namespace reshardfs
