// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/storage_queue.h"

#include <algorithm>
#include <exception>
#include <unordered_map>
#include <utility>

#include "base/process/counters.h"
#include "storage/local/file_system_speed.h"

namespace reshardfs {

StorageQueue::StorageQueue(Ticks ticks) {
  if (ticks == Ticks::kByItself) {
    ticker_.emplace([this](Clock::time_point now) { return tick(now); });
  }
}

// --- work comes --------------------------------------------------------------------------------

void StorageQueue::submit(std::unique_ptr<Work> work) {
  Works one;
  one.push_back(std::move(work));
  const auto first = one.begin();
  bool runs = false;
  {
    const std::lock_guard lock(mutex_);
    runs = !is_node_busy(**first) && permits_.take((*first)->kind);
    Works& to = runs ? running_ : due(**first);
    to.splice(to.end(), one);
  }
  if (ticker_) ticker_->want();
  if (runs) run_and_go_on(first);
}

void StorageQueue::help() noexcept {
  Works::iterator next;
  {
    const std::lock_guard lock(mutex_);
    if (!start_next(next)) return;
  }
  run_and_go_on(next);
}

// --- work runs ---------------------------------------------------------------------------------

void StorageQueue::run_and_go_on(Works::iterator work) noexcept {
  ++threads_taken_;
  if (taken_) taken_();
  while (end_and_start_next(work, answer(**work))) {
  }
  --threads_taken_;
}

/// @return what it has met, if it is to be done again.
std::optional<StuckRead> StorageQueue::answer(Work& work) noexcept {
  if (work.request != nullptr && work.request->is_over()) return std::nullopt;
  try {
    std::optional<LeftReads::Scope> scope;
    if (limits_of(work.kind).leaves) scope.emplace(work.left_reads);
    Reply reply = work.run();
    scope.reset();
    if (work.request == nullptr) return std::nullopt;
    if (fuse_req_t claimed = work.request->claim()) reply.send(claimed);
  } catch (const StuckRead& stuck) {
    return stuck;
  }
  return std::nullopt;
}

/// Takes the work from the running, and frees it if it is done.
/// @return whether `work` is now another one.
bool StorageQueue::end_and_start_next(Works::iterator& work,
                                      std::optional<StuckRead> stuck) noexcept {
  Works ended;  // freed without the mutex: it may be the last to hold a source
  const std::lock_guard lock(mutex_);
  Work& it = **work;
  give_permit_back(it);
  if (stuck) {
    it.stuck = std::move(*stuck);
    it.ran.reset();
    it.late = false;
  }
  Works& to = stuck ? left_ : ended;
  to.splice(to.end(), running_, work);
  return start_next(work);
}

void StorageQueue::give_permit_back(const Work& work) noexcept {
  if (work.late) {
    permits_.end_late(work.kind);
  } else {
    permits_.give_back(work.kind);
  }
}

bool StorageQueue::is_node_busy(const Work& work) const noexcept {
  return limits_of(work.kind).one_at_a_time && work.node != 0 &&
         std::any_of(running_.begin(), running_.end(), [&work](const auto& running) {
           return running->kind == work.kind && running->node == work.node;
         });
}

bool StorageQueue::start_next(Works::iterator& next) noexcept {
  for (std::size_t kind = 0; kind < due_.size(); ++kind) {
    if (permits_.free(static_cast<WaitClass>(kind)) == 0) continue;
    Works& due = due_[kind];
    next = std::find_if(due.begin(), due.end(),
                        [this](const auto& work) { return !is_node_busy(*work); });
    if (next == due.end()) continue;
    permits_.take(static_cast<WaitClass>(kind));
    running_.splice(running_.end(), due, next);
    return true;
  }
  return false;
}

unsigned StorageQueue::startable() const noexcept {
  std::size_t sum = 0;
  for (std::size_t kind = 0; kind < due_.size(); ++kind) {
    const std::size_t free = permits_.free(static_cast<WaitClass>(kind));
    const auto can = std::count_if(due_[kind].begin(), due_[kind].end(),
                                   [this](const auto& work) { return !is_node_busy(*work); });
    sum += std::min(free, static_cast<std::size_t>(can));
  }
  return static_cast<unsigned>(sum);
}

// --- work is looked after ----------------------------------------------------------------------

bool StorageQueue::tick(Clock::time_point now) noexcept {
  give_up_killed();
  const bool hangs = FileSystemSpeed::is_any_stuck(Clock::now());
  unsigned threads = 0;
  bool any = false;
  bool news = false;
  Works given_up;  // freed without the mutex
  {
    const std::lock_guard lock(mutex_);
    for (const auto& work : running_) note_late(*work, now, hangs);
    drop_given_up(left_, given_up);
    for (Works& due : due_) drop_given_up(due, given_up);
    resume_left();
    threads = startable();
    note_oldest();
    news = stalls_.look(find_stalled(now, hangs), now);
    any = !running_.empty() || !left_.empty() ||
          std::any_of(due_.begin(), due_.end(), [](const Works& due) { return !due.empty(); });
  }
  if (threads > 0 && wake_) wake_(threads);
  if (news && stalled_) stalled_();
  return any;
}

/// @param hangs whether a read of any source is stuck. If none is, what takes long computes, or
///        reads much; but opening a file or a directory may hang in ways that the storage does not
///        know.
void StorageQueue::note_late(Work& work, Clock::time_point now, bool hangs) noexcept {
  if (!work.ran) work.ran = now;
  if (work.late || now - *work.ran < kLateAfter) return;
  if (hangs || limits_of(work.kind).one_at_a_time) work.late = permits_.give_up(work.kind);
}

void StorageQueue::resume_left() noexcept {
  for (auto work = left_.begin(); work != left_.end();) {
    const auto next = std::next(work);
    if ((*(*work)->stuck.may_go_on)()) due(**work).splice(due(**work).end(), left_, work);
    work = next;
  }
}

std::optional<StallWatch::Stall> StorageQueue::stall() noexcept {
  const std::lock_guard lock(mutex_);
  return stalls_.take();
}

/// A read is short, so that all its time counts, with the wait for its turn. Of what opens much, or
/// computes much, counts how long it has been running.
StallWatch::Found StorageQueue::find_stalled(Clock::time_point now, bool hangs) const noexcept {
  StallWatch::Found found;
  for_each_work([&](const Work& work) {
    if (work.request == nullptr || limits_of(work.kind).late == 0) return;
    if (work.kind == WaitClass::kAttribute && !hangs) return;
    Clock::duration waited = now - work.request->asked().asker.since;
    if (work.kind != WaitClass::kRead) waited = std::min(waited, now - work.ran.value_or(now));
    if (waited < StallWatch::kAfter) return;
    found.any = true;
    if (work.request->is_over() || (found.longest && found.longest->waited >= waited)) return;
    found.longest = {.asked = work.request->asked(), .waited = waited};
  });
  return found;
}

/// Of requests that somebody waits for, to within a tick.
void StorageQueue::note_oldest() noexcept {
  unsigned ticks = 0;
  for_each_work([&ticks](const Work& work) {
    if (work.request != nullptr && !work.request->is_over()) ticks = std::max(ticks, work.ticks);
  });
  counters().set_oldest_wait(ticks * Ticker::kInterval);
}

/// Of work that waits for its turn.
void StorageQueue::drop_given_up(Works& from, Works& to) noexcept {
  for (auto work = from.begin(); work != from.end();) {
    const auto next = std::next(work);
    const bool over = (*work)->request != nullptr && (*work)->request->is_over();
    if (over) to.splice(to.end(), from, work);
    work = next;
  }
}

std::vector<KillableRequest::Ptr> StorageQueue::waiting_requests() {
  std::vector<KillableRequest::Ptr> requests;
  const std::lock_guard lock(mutex_);
  for_each_work([&requests](Work& work) {
    // Most work ends before anybody can be killed.
    if (work.ticks++ == 0 || work.request == nullptr || work.request->is_over()) return;
    requests.push_back(work.request);
  });
  return requests;
}

/// Without the mutex while programs are asked for, and while libfuse, which has locks of its own,
/// is told.
void StorageQueue::give_up_killed() noexcept {
  try {
    // One program may wait for many.
    std::unordered_map<pid_t, bool> killed;
    for (const KillableRequest::Ptr& request : waiting_requests()) {
      const auto [known, is_new] = killed.try_emplace(request->thread(), false);
      if (is_new) known->second = request->has_lost_its_program();
      if (known->second) request->give_up();
    }
  } catch (const std::exception&) {
    // No memory: the next tick will do.
  }
}

}  // namespace reshardfs
