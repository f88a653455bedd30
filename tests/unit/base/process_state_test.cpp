// SPDX-License-Identifier: Apache-2.0
#include "base/process/process_state.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

/// What a thread of the parent can be at when another one forks.
struct Busy {
  explicit Busy(int its_number) : number(its_number) {}

  std::mutex mutex;
  std::condition_variable wake;
  int waiting = 0;  ///< guarded by mutex
  const int number;
};

std::atomic<int> made = 0;
std::atomic<int> left = 0;

ProcessState<Busy> busy(
    "what the tests keep busy",
    [](const Busy* before) {
      ++made;
      return new Busy(before == nullptr ? 1 : before->number + 1);
    },
    [](Busy& /*before*/) { ++left; });

/// The exit code of a child that runs `work`; a signal that ends it is a failure.
int in_child(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);  // one that hangs ends, and says so
    ::_exit(work() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(ProcessState, IsMadeOnceByAnyNumberOfThreads) {
  EXPECT_EQ(in_child([] {  // where nobody has asked for it
              made = 0;
              std::vector<std::thread> threads;
              std::atomic<Busy*> first = nullptr;
              std::atomic<bool> same = true;
              for (int i = 0; i < 8; ++i) {
                threads.emplace_back([&] {
                  Busy* none = nullptr;
                  Busy* const mine = &busy.get();
                  if (!first.compare_exchange_strong(none, mine) && none != mine) same = false;
                });
              }
              for (std::thread& thread : threads) thread.join();
              return made == 1 && same && busy.made() == first;
            }),
            0);
}

TEST(ProcessState, IsAnotherOneInAChild) {
  Busy& mine = busy.get();
  const int number = mine.number;
  EXPECT_EQ(in_child([&] {
              const bool none_yet = busy.made() == nullptr && left == 1;
              return none_yet && &busy.get() != &mine && busy.get().number == number + 1;
            }),
            0);
  EXPECT_EQ(busy.made(), &mine);
  EXPECT_EQ(left, 0);
}

TEST(ProcessState, IsAnotherOneInAGrandchild) {
  const int number = busy.get().number;
  EXPECT_EQ(in_child([&] {
              return busy.get().number == number + 1 &&
                     in_child([&] { return busy.get().number == number + 2; }) == 0;
            }),
            0);
}

TEST(ProcessState, AChildHasNoLockThatAThreadOfItsParentHolds) {
  Busy& mine = busy.get();
  const std::unique_lock lock(mine.mutex);
  EXPECT_EQ(in_child([] {
              const std::lock_guard own(busy.get().mutex);
              return true;
            }),
            0);
}

TEST(ProcessState, AChildHasNoWaitersOfItsParent) {
  Busy& mine = busy.get();
  bool over = false;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      std::unique_lock lock(mine.mutex);
      ++mine.waiting;
      mine.wake.notify_all();
      mine.wake.wait(lock, [&] { return over; });
    });
  }
  {
    std::unique_lock lock(mine.mutex);
    mine.wake.wait(lock, [&] { return mine.waiting == 4; });
  }
  EXPECT_EQ(in_child([] {
              Busy& own = busy.get();
              for (int round = 0; round < 3; ++round) {
                int turn = 0;
                std::thread other([&] {
                  const std::lock_guard lock(own.mutex);
                  turn = 1;
                  own.wake.notify_all();
                });
                std::unique_lock lock(own.mutex);
                own.wake.wait(lock, [&] { return turn == 1; });
                lock.unlock();
                other.join();
              }
              return true;
            }),
            0);
  {
    const std::lock_guard lock(mine.mutex);
    over = true;
    mine.waiting = 0;
  }
  mine.wake.notify_all();
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(ForkLock, NoOtherThreadForksMeanwhile) {
  std::atomic<bool> forked = false;
  std::promise<void> locked;
  std::atomic<bool> release = false;
  int plain = 0;  // written in two steps, as a string is
  int copy = 0;
  std::thread holder([&] {
    const ForkLock lock;
    plain = 1;
    locked.set_value();
    while (!release) std::this_thread::yield();
    if (!forked) copy = plain = 2;
  });
  locked.get_future().wait();
  std::thread forker([&] {
    EXPECT_EQ(in_child([&] { return plain == 2 && copy == 2; }), 0);
    forked = true;
  });
  release = true;
  holder.join();
  forker.join();
}

TEST(ForkLock, AThreadMayHaveSeveral) {
  const ForkLock outer;
  const ForkLock inner;
  busy.get();
  EXPECT_EQ(in_child([] {
              const ForkLock own;
              return true;
            }),
            0);
}

TEST(ProcessGeneration, IsThatOfTheProcess) {
  const std::uint64_t own = process_generation();
  EXPECT_EQ(in_child([&] { return process_generation() == own + 1; }), 0);
  EXPECT_EQ(process_generation(), own);
}

TEST(ProcessStateEntry, IsInTheList) {
  const std::vector<std::string> names = ProcessStateEntry::names();
  EXPECT_NE(std::find(names.begin(), names.end(), "what the tests keep busy"), names.end());
}

}  // namespace
}  // namespace reshardfs
