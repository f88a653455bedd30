// SPDX-License-Identifier: Apache-2.0
#include "schedule.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs::schedules {
namespace {

using Nanoseconds = std::int64_t;
constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

struct Thread {
  enum class State : std::uint8_t { kReady, kLocks, kWaits, kJoins, kEnded };

  std::binary_semaphore go{0};
  pthread_t handle{};
  State state = State::kReady;
  const void* mutex = nullptr;      ///< which it locks, now or after it has waited
  const void* condition = nullptr;  ///< for which it waits
  Nanoseconds deadline = kNever;
  bool timed_out = false;
  std::shared_ptr<Thread> joined;
};
using ThreadPtr = std::shared_ptr<Thread>;

/// One thread at a time uses it: the one that runs.
class Model {
 public:
  explicit Model(const Options& options) : options_(options), random_(options.seed) {}

  ThreadPtr add() {
    threads_.push_back(std::make_shared<Thread>());
    return threads_.back();
  }
  /// Lets another thread go on, or this one.
  void step(const ThreadPtr& self) {
    Thread* const next = choose();
    if (next == self.get()) return;
    next->go.release();
    self->go.acquire();
  }
  void begin() {
    choose()->go.release();
    all_ended_.acquire();
  }
  void end(const ThreadPtr& self) {
    self->state = Thread::State::kEnded;
    std::erase(threads_, self);
    if (threads_.empty()) {
      all_ended_.release();
    } else {
      choose()->go.release();
    }
  }
  void lock(const ThreadPtr& self, const void* mutex) {
    self->state = Thread::State::kLocks;
    self->mutex = mutex;
    step(self);
  }
  void unlock(const ThreadPtr& self, const void* mutex) {
    owners_.erase(mutex);
    step(self);
  }
  /// @return whether it was notified.
  bool wait(const ThreadPtr& self, const void* condition, const void* mutex, Nanoseconds deadline) {
    owners_.erase(mutex);
    self->state = Thread::State::kWaits;
    self->condition = condition;
    self->mutex = mutex;
    self->deadline = deadline;
    self->timed_out = false;
    step(self);
    return !self->timed_out;
  }
  void notify(const ThreadPtr& self, const void* condition, bool all);
  void join(const ThreadPtr& self, pthread_t handle) {
    const auto found = std::find_if(threads_.begin(), threads_.end(), [&](const ThreadPtr& thread) {
      return ::pthread_equal(thread->handle, handle) != 0;
    });
    if (found == threads_.end()) return;  // it has ended
    self->joined = *found;
    self->state = Thread::State::kJoins;
    step(self);
    self->joined.reset();
  }

  Nanoseconds now() noexcept { return now_ += 1000; }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  void allow_time() noexcept { time_is_allowed_ = true; }
  const Outcome& outcome() const noexcept { return outcome_; }

 private:
  bool can_go_on(const Thread& thread) const {
    switch (thread.state) {
      case Thread::State::kReady:
        return true;
      case Thread::State::kLocks:
        return !owners_.contains(thread.mutex);
      case Thread::State::kJoins:
        return thread.joined->state == Thread::State::kEnded;
      default:
        return false;
    }
  }
  Thread* choose();
  void let_time_pass();
  void wake_all();
  void rescue();
  [[noreturn]] void give_up() const;

  const Options options_;
  std::mt19937_64 random_;
  std::vector<ThreadPtr> threads_;               ///< that have not ended
  std::map<const void*, const Thread*> owners_;  ///< of mutexes
  std::binary_semaphore all_ended_{0};
  Nanoseconds now_ = 3600'000'000'000;
  std::uint64_t notifications_ = 0;
  bool time_is_allowed_ = false;
  Outcome outcome_;
};

void Model::notify(const ThreadPtr& self, const void* condition, bool all) {
  std::vector<Thread*> waiting;
  for (const ThreadPtr& thread : threads_) {
    if (thread->state == Thread::State::kWaits && thread->condition == condition) {
      waiting.push_back(thread.get());
    }
  }
  ++notifications_;
  const bool is_lost =
      options_.lost_notifications > 0 && notifications_ % options_.lost_notifications == 0;
  if (!waiting.empty() && !is_lost) {
    if (!all) std::swap(waiting.front(), waiting[below(waiting.size())]);
    waiting.resize(all ? waiting.size() : 1);
    for (Thread* const thread : waiting) thread->state = Thread::State::kLocks;
  }
  step(self);
}

void Model::let_time_pass() {
  const auto first = std::min_element(
      threads_.begin(), threads_.end(), [](const ThreadPtr& a, const ThreadPtr& b) {
        const auto time_of = [](const Thread& thread) {
          return thread.state == Thread::State::kWaits ? thread.deadline : kNever;
        };
        return time_of(*a) < time_of(*b);
      });
  Thread& thread = **first;
  if (thread.state != Thread::State::kWaits || thread.deadline == kNever) return wake_all();
  // It may wait for one that waits without a limit, whose notification was lost.
  constexpr std::uint64_t kAtATime = 8;
  if (!time_is_allowed_ && outcome_.rescued % kAtATime == kAtATime - 1) return wake_all();
  now_ = std::max(now_, thread.deadline);
  thread.timed_out = true;
  thread.state = Thread::State::kLocks;
  if (!time_is_allowed_) rescue();
}

void Model::wake_all() {
  const auto waits = [](const ThreadPtr& other) { return other->state == Thread::State::kWaits; };
  if (std::none_of(threads_.begin(), threads_.end(), waits)) give_up();
  rescue();
  for (const ThreadPtr& other : threads_) {
    if (waits(other)) other->state = Thread::State::kLocks;
  }
}

void Model::rescue() {
  constexpr std::uint64_t kMostRescues = 1000;
  if (++outcome_.rescued > kMostRescues) give_up();
}

void Model::give_up() const {
  std::fprintf(stderr, "RESHARDFS_SCHEDULE_SEED=%lu: no thread can go on, after %lu steps\n",
               options_.seed, outcome_.steps);
  ::_exit(3);
}

Thread* Model::choose() {
  std::vector<Thread*> able;
  while (true) {
    for (const ThreadPtr& thread : threads_) {
      if (can_go_on(*thread)) able.push_back(thread.get());
    }
    if (!able.empty()) break;
    let_time_pass();
  }
  if (able.size() > 1) ++outcome_.steps;
  Thread* const next = able[below(able.size())];
  if (next->state == Thread::State::kLocks) owners_[next->mutex] = next;
  next->state = Thread::State::kReady;
  return next;
}

std::unique_ptr<Model> model;
thread_local ThreadPtr self;

/// What a thread of a schedule runs.
struct Registered final : std::thread::_State {
  Registered(ThreadPtr its_thread, std::thread::_State_ptr its_work)
      : thread(std::move(its_thread)), work(std::move(its_work)) {}
  void _M_run() override {
    thread->go.acquire();
    self = thread;
    work->_M_run();
    work.reset();
    self.reset();
    model->end(thread);
  }
  const ThreadPtr thread;
  std::thread::_State_ptr work;
};

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

Outcome run(const Options& options, const std::function<void()>& work) {
  model = std::make_unique<Model>(options);
  std::thread first(work);
  model->begin();
  const Outcome outcome = model->outcome();
  first.join();
  model.reset();
  return outcome;
}

void allow_time() noexcept {
  model->allow_time();
}

std::uint64_t random_below(std::uint64_t bound) noexcept {
  return model->below(bound);
}

void for_each_seed(std::uint64_t count, const std::function<void(const Options&)>& check) {
  const std::uint64_t first = number_of("RESHARDFS_SCHEDULE_SEED", 0);
  if (first != 0) count = 1;
  count = number_of("RESHARDFS_SCHEDULES", count);
  for (std::uint64_t seed = std::max<std::uint64_t>(first, 1); count > 0; --count, ++seed) {
    SCOPED_TRACE("RESHARDFS_SCHEDULE_SEED=" + std::to_string(seed));
    check({.seed = seed});
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace reshardfs::schedules

// What the linker's option --wrap puts in place of what the objects call. A thread that is in no
// schedule gets what it called.
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
using reshardfs::schedules::model;
using reshardfs::schedules::self;
extern "C" {
int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
int __real_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* until);
void __real__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>* lock);
void __real__ZNSt18condition_variable10notify_oneEv(std::condition_variable* condition);
void __real__ZNSt18condition_variable10notify_allEv(std::condition_variable* condition);
void __real__ZNSt6thread4joinEv(std::thread* thread);
void __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* thread, std::thread::_State_ptr state, void (*depend)());
std::int64_t __real__ZNSt6chrono3_V212steady_clock3nowEv();

int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (self == nullptr) return __real_pthread_mutex_lock(mutex);
  model->lock(self, mutex);
  return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (self == nullptr) return __real_pthread_mutex_unlock(mutex);
  model->unlock(self, mutex);
  return 0;
}

int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* until) {
  if (self == nullptr) return __real_pthread_cond_clockwait(condition, mutex, clock, until);
  const std::int64_t deadline = std::int64_t{until->tv_sec} * 1'000'000'000 + until->tv_nsec;
  return model->wait(self, condition, mutex, deadline) ? 0 : ETIMEDOUT;
}

void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>* lock) {
  if (self == nullptr) {
    return __real__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(condition, lock);
  }
  model->wait(self, condition, lock->mutex(), reshardfs::schedules::kNever);
}

void __wrap__ZNSt18condition_variable10notify_oneEv(std::condition_variable* condition) {
  if (self == nullptr) return __real__ZNSt18condition_variable10notify_oneEv(condition);
  model->notify(self, condition, /*all=*/false);
}

void __wrap__ZNSt18condition_variable10notify_allEv(std::condition_variable* condition) {
  if (self == nullptr) return __real__ZNSt18condition_variable10notify_allEv(condition);
  model->notify(self, condition, /*all=*/true);
}

void __wrap__ZNSt6thread4joinEv(std::thread* thread) {
  if (self != nullptr) model->join(self, thread->native_handle());
  __real__ZNSt6thread4joinEv(thread);
}

void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* thread, std::thread::_State_ptr state, void (*depend)()) {
  if (model == nullptr) {
    return __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
        thread, std::move(state), depend);
  }
  const auto started = model->add();
  __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
      thread, std::make_unique<reshardfs::schedules::Registered>(started, std::move(state)),
      depend);
  started->handle = thread->native_handle();
  if (self != nullptr) model->step(self);
}

std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  return self == nullptr ? __real__ZNSt6chrono3_V212steady_clock3nowEv() : model->now();
}
}
// NOLINTEND(bugprone-reserved-identifier)
