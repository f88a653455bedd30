// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/storage_queue.h"

#include <algorithm>
#include <exception>
#include <unordered_map>
#include <utility>

#include "base/process/counters.h"

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
    runs = permits_.take((*first)->kind);
    Works& to = runs ? running_ : due_[static_cast<std::size_t>((*first)->kind)];
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
  bool more = true;
  while (more) {
    bool was_run = false;
    {
      const SourceUse::Scope scope((*work)->use);
      if (may_run(work)) {
        was_run = answer(**work);
      } else {
        // It is held back, and no longer this thread's.
        const std::lock_guard lock(mutex_);
        more = start_next(work);
        continue;
      }
    }
    more = end_and_start_next(work, was_run);
  }
  --threads_taken_;
}

/// Whether the work is not to be held back; else it has been taken from the running.
bool StorageQueue::may_run(Works::iterator work) noexcept {
  Work& it = **work;
  const bool alone = limits_of(it.kind).one_at_a_time;
  if (it.probes || (!alone && !closed_.any())) return true;
  if (!it.has_key) {
    // Without the mutex: this may wait for another thread that plans the same file.
    try {
      it.key = it.make_key();
    } catch (const std::exception&) {
      // Nothing to be held back from; running it will tell what is wrong.
    }
    it.has_key = true;
  }
  const std::lock_guard lock(mutex_);
  if (closed_.holds_back(it.key)) {
    give_permit_back(it);
    held_.splice(held_.end(), running_, work);
    return false;
  }
  try {
    if (alone || closed_.is_any_stuck()) close_for_others(it);
  } catch (const std::exception&) {
    // No memory to keep others back: they run as well.
  }
  return true;
}

void StorageQueue::close_for_others(Work& work) {
  work.closes.reserve(work.key.size());
  for (const Awaited& awaited : work.key) {
    if (closed_.close(awaited)) work.closes.push_back(awaited);
  }
}

/// @return whether the work was run; false if its request has been given up.
bool StorageQueue::answer(Work& work) noexcept {
  if (work.request != nullptr && work.request->is_over()) return false;
  Reply reply = work.run();
  now_using(nullptr);
  if (work.request == nullptr) return true;
  if (fuse_req_t claimed = work.request->claim()) reply.send(claimed);
  return true;
}

/// Takes the work from the running and frees it.
/// @return whether `work` is now another one.
bool StorageQueue::end_and_start_next(Works::iterator& work, bool was_run) noexcept {
  Works ended;  // freed without the mutex: it may be the last to hold a source
  const std::lock_guard lock(mutex_);
  ended.splice(ended.end(), running_, work);
  Work& it = *ended.front();
  give_permit_back(it);
  for (const Awaited& awaited : it.closes) closed_.reopen(awaited);
  if (it.probes && was_run) closed_.reopen(it.probed);
  if (it.probes && !was_run) closed_.probe_again(it.probed);
  release_held();
  return start_next(work);
}

void StorageQueue::give_permit_back(const Work& work) noexcept {
  if (work.stuck) {
    permits_.end_lending(work.kind);
  } else {
    permits_.give_back(work.kind);
  }
}

/// After something was reopened.
void StorageQueue::release_held() noexcept {
  for (auto held = held_.begin(); held != held_.end();) {
    const auto next = std::next(held);
    if (!closed_.holds_back((*held)->key)) {
      Works& due = due_[static_cast<std::size_t>((*held)->kind)];
      due.splice(due.end(), held_, held);
    }
    held = next;
  }
}

bool StorageQueue::start_next(Works::iterator& next) noexcept {
  for (std::size_t kind = 0; kind < due_.size(); ++kind) {
    if (due_[kind].empty() || !permits_.take(static_cast<WaitClass>(kind))) continue;
    next = due_[kind].begin();
    running_.splice(running_.end(), due_[kind], next);
    return true;
  }
  return false;
}

unsigned StorageQueue::startable() const noexcept {
  unsigned sum = 0;
  for (std::size_t kind = 0; kind < due_.size(); ++kind) {
    const unsigned free = permits_.free(static_cast<WaitClass>(kind));
    sum += static_cast<unsigned>(std::min<std::size_t>(free, due_[kind].size()));
  }
  return sum;
}

// --- work is looked after ----------------------------------------------------------------------

bool StorageQueue::tick(Clock::time_point now) noexcept {
  give_up_killed();
  unsigned threads = 0;
  bool any = false;
  bool news = false;
  Works given_up;  // freed without the mutex
  {
    const std::lock_guard lock(mutex_);
    for (const auto& work : running_) {
      try {
        look_after(*work, now);
      } catch (const std::exception&) {
        // No memory: the next tick will do.
      }
    }
    drop_given_up(held_, given_up);
    for (Works& due : due_) drop_given_up(due, given_up);
    closed_.send_probes(now, [this](const Awaited& awaited) { return send_probe(awaited); });
    threads = startable();
    note_oldest();
    news = stalls_.look(find_stalled(now), now);
    any = !running_.empty() || !held_.empty() || threads > 0 ||
          std::any_of(due_.begin(), due_.end(), [](const Works& due) { return !due.empty(); });
  }
  if (threads > 0 && wake_) wake_(threads);
  if (news && stalled_) stalled_();
  return any;
}

std::optional<StallWatch::Stall> StorageQueue::stall() noexcept {
  const std::lock_guard lock(mutex_);
  return stalls_.take();
}

/// A read is short, so that all its time counts, with the wait for its turn. What reads or computes
/// much is stalled only if it is stuck in a source.
StallWatch::Clock::duration StorageQueue::stalled_for(const Work& work,
                                                      Clock::time_point now) noexcept {
  const Clock::duration waited = now - work.request->asked().asker.since;
  if (work.kind == WaitClass::kRead) return waited;
  return work.told ? std::min(waited, now - work.seen_at) : Clock::duration::zero();
}

StallWatch::Found StorageQueue::find_stalled(Clock::time_point now) const noexcept {
  StallWatch::Found found;
  for_each_work([&](const Work& work) {
    if (work.request == nullptr) return;
    const Clock::duration waited = stalled_for(work, now);
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
    // Who tries a source says so itself when its turn comes.
    if (over && !(*work)->probes) to.splice(to.end(), from, work);
    work = next;
  }
}

/// Finds out whether running work is stuck.
void StorageQueue::look_after(Work& work, Clock::time_point now) {
  const SourceUse::Look look = work.use.look();
  if (work.seen_at == Clock::time_point{} || look != work.seen) {
    work.seen = look;
    work.seen_at = now;
    if (work.told) {
      // It has got what it was stuck in, and goes on with another source.
      work.told = false;
      for (const Awaited& awaited : work.closes) {
        if (awaited.source != nullptr) closed_.reopen(awaited);
      }
      std::erase_if(work.closes, [](const Awaited& awaited) { return awaited.source != nullptr; });
      release_held();
    }
    return;
  }
  const bool waits = look.source != nullptr || limits_of(work.kind).one_at_a_time;
  if (!waits || now - work.seen_at < kStuckAfter) return;
  if (look.source != nullptr && !work.told) close_stuck(work, {.source = look.source}, now);
  work.told = true;
  if (!work.stuck) work.stuck = permits_.lend(work.kind);
}

/// Of all that the work has for itself it keeps what it is stuck in.
void StorageQueue::close_stuck(Work& work, const Awaited& awaited, Clock::time_point now) {
  Key kept;
  kept.reserve(work.closes.size() + 1);
  kept.push_back(awaited);
  closed_.close_stuck(awaited, now);
  for (const Awaited& other : std::exchange(work.closes, std::move(kept))) {
    if (other.source != nullptr && other != awaited) closed_.reopen(other);
    if (other.source == nullptr) work.closes.push_back(other);
  }
  release_held();
}

/// @return whether there is work that can try it.
bool StorageQueue::send_probe(const Awaited& awaited) noexcept {
  const auto probe = std::find_if(held_.begin(), held_.end(), [&](const auto& held) {
    return closed_.is_only_obstacle(awaited, held->key);
  });
  if (probe == held_.end()) return false;
  (*probe)->probes = true;
  (*probe)->probed = awaited;
  Works& due = due_[static_cast<std::size_t>((*probe)->kind)];
  due.splice(due.end(), held_, probe);
  return true;
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
