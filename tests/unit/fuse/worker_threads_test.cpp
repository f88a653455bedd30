// SPDX-License-Identifier: Apache-2.0
#include "fuse/worker_threads.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

#include "fuse/event_log.h"
#include "support/no_threads.h"
#include "support/recorded_log.h"
#include "unit/fuse/worker_threads_fixture.h"

namespace reshardfs::test {
namespace {

TEST_F(WorkerThreadsTest, SaysOnceThatTheMountIsLive) {
  workers.start();
  init();
  expect_answer(1);
  workers.pause();
  workers.start();
  expect_answer(2);
  std::vector<Event> rest;
  EXPECT_TRUE(workers.stop(1h, [&](Event event) { rest.push_back(event); }));
  while (const auto event = events.wait_for(0ms)) rest.push_back(*event);
  EXPECT_FALSE(rest.empty());
  EXPECT_EQ(std::set(rest.begin(), rest.end()), std::set{Event::kEnded});
  EXPECT_EQ(workers.error(), 0);
}

TEST_F(WorkerThreadsTest, AMountThatWasTakenOverIsLiveAtOnce) {
  served.initialised = true;
  workers.start();
  EXPECT_EQ(events.wait(), Event::kLive);
}

TEST_F(WorkerThreadsTest, NotesTheNumberOfTheRequest) {
  workers.start();
  init();
  const std::uint64_t unique = ask(1);
  EXPECT_EQ(kernel.answer().unique, unique);
  EXPECT_EQ(number_seen, unique);
}

TEST_F(WorkerThreadsTest, StartsAnotherThreadWhenTheLastIdleOneIsBusyUpToALimit) {
  workers.start();
  init();
  std::vector<Step*> held;
  for (unsigned busy = 1; busy <= kMemoryThreads; ++busy) held.push_back(&hold(kHeld + busy));
  EXPECT_EQ(threads(), kMemoryThreads);
  const std::uint64_t last = ask(2);
  held.front()->let_go();
  EXPECT_NE(kernel.answer().unique, last);
  EXPECT_EQ(kernel.answer().unique, last) << "by the thread that was let go";
  for (std::size_t i = 1; i < held.size(); ++i) {
    held[i]->let_go();
    kernel.answer();
  }
  expect_answer(3);
  EXPECT_EQ(threads(), kMemoryThreads);
}

TEST_F(WorkerThreadsTest, ThreadsThatRunWorkOfTheStorageQueueComeInAddition) {
  workers.start();
  init();
  std::vector<Step*> held;
  for (unsigned busy = 1; busy < kMemoryThreads; ++busy) held.push_back(&hold(kHeld + busy));
  held.push_back(&hold(kStored));
  expect_answer(1);
  const std::ptrdiff_t enough = threads();
  held.push_back(&hold(kHeld + kMemoryThreads));
  EXPECT_EQ(threads(), enough);
  for (Step* step : held) step->let_go();
  for (std::size_t i = 0; i < held.size(); ++i) kernel.answer();
}

TEST_F(WorkerThreadsTest, AnIdleThreadTakesWorkForWhichThereIsAPermitAgain) {
  workers.start();
  init();
  Step& busy = hold(kHeld);  // of the first thread
  expect_answer(1);
  std::deque<Step> steps(limits_of(WaitClass::kFile).permits);
  std::vector<std::thread> stuck;
  for (Step& step : steps) {
    stuck.emplace_back([&] {
      served.storage.submit(nullptr, WaitClass::kFile, 0, [&step] {
        step.begin();
        return Reply::error(0);
      });
    });
    step.wait_until_begun();
  }
  std::promise<void> ran;
  served.storage.submit(nullptr, WaitClass::kFile, 0, [&ran] {
    ran.set_value();
    return Reply::error(0);
  });
  ran.get_future().wait();  // those before it are late meanwhile
  expect_answer(2);
  busy.let_go();
  kernel.answer();
  for (Step& step : steps) step.let_go();
  for (std::thread& thread : stuck) thread.join();
}

TEST_F(WorkerThreadsTest, TellsOfAStall) {
  workers.start();
  init();
  const HangingFileSystem hanging;
  const auto lives = [](pid_t) noexcept { return false; };
  const Asked asked{
      .inode = 1, .operation = "read", .asker = {.since = StorageQueue::Clock::now() - 1h}};
  Step step;
  std::thread reader([&] {
    served.storage.submit(std::make_shared<KillableRequest>(lives, asked), WaitClass::kRead, 0,
                          [&step] {
                            step.begin();
                            return Reply::error(0);
                          });
  });
  EXPECT_EQ(events.wait(), Event::kStall);
  step.let_go();
  reader.join();
}

TEST_F(WorkerThreadsTest, ReportsThatNotEvenOneThreadCanBeStarted) {
  {
    const NoThreads none;
    EXPECT_THROW(workers.start(), std::system_error);
  }
  workers.start();
  init();
}

TEST_F(WorkerThreadsTest, SaysOnceThatItLacksThreadsUntilOneCanBeStartedAgain) {
  testing::internal::CaptureStdout();
  workers.start();
  {
    const NoThreads none;
    init();
    for (int i = 0; i < 3; ++i) expect_answer(1);
  }
  Step& held = hold(kHeld);
  {
    const NoThreads none;
    expect_answer(1);
  }
  held.let_go();
  kernel.answer();
  flush_log();
  const std::string log = testing::internal::GetCapturedStdout();
  const std::string line = "cannot start another thread";
  const std::size_t first = log.find(line);
  ASSERT_NE(first, std::string::npos) << log;
  const std::size_t second = log.find(line, first + 1);
  ASSERT_NE(second, std::string::npos) << log;
  EXPECT_EQ(log.find(line, second + 1), std::string::npos) << log;
}

TEST_F(WorkerThreadsTest, APauseIsNoEndOfALackOfThreads) {
  int warnings = 0;
  const RecordedLog log([&warnings](auto, std::string_view) { ++warnings; });
  workers.start();
  {
    const NoThreads none;
    init();
  }
  EXPECT_EQ(warnings, 1);
  workers.pause();
  while (threads() != 0) std::this_thread::yield();
  submit_here();
  workers.start();
  {
    const NoThreads none;
    expect_answer(1);
  }
  workers.pause();
  EXPECT_EQ(warnings, 1);
}

TEST_F(WorkerThreadsTest, NoneIsStartedWithoutNeed) {
  for (int i = 0; i < 2; ++i) {
    workers.start();
    EXPECT_EQ(threads(), 1) << "one waits for requests";
  }
  init();
  expect_answer(1);
  Step& held = hold(kHeld);
  const std::ptrdiff_t all = threads();
  std::ptrdiff_t ended = 0;
  const auto count = [&ended](Event event) { ended += event == Event::kEnded ? 1 : 0; };
  EXPECT_FALSE(workers.stop(0ms, count));
  while (threads() > 1) std::this_thread::yield();
  submit_here();
  held.let_go();
  EXPECT_TRUE(workers.stop(1h, count));
  while (const auto event = events.wait_for(0ms)) count(*event);
  EXPECT_EQ(ended, all) << "none while they end";
}

TEST_F(WorkerThreadsTest, LeaveNoMemoryBehind) {
  const auto used = [] {
    const auto memory = ::mallinfo2();
    return memory.uordblks + memory.hblkhd;
  };
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator(maps), {}, '\n');
  };
  const std::size_t used_before = used();
  workers.start();
  init();
  const std::ptrdiff_t mapped_before = mappings();
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    workers.pause();
    workers.start();
    expect_answer(1);
  }
  EXPECT_LT(mappings(), mapped_before + kRounds) << "each stack is one";
  EXPECT_TRUE(workers.stop(1h));
  EXPECT_LT(used(), used_before + kRequestBytes) << "each buffer is larger";
}

TEST_F(WorkerThreadsTest, TakesNoRequestsDuringAPause) {
  workers.start();
  init();
  for (int round = 0; round < 5; ++round) {
    workers.pause();
    const std::uint64_t waits = ask(1);
    EXPECT_FALSE(kernel.has_answer());
    workers.start();
    EXPECT_EQ(kernel.answer().unique, waits);
  }
}

TEST_F(WorkerThreadsTest, ThreadsFinishTheirRequestsDuringAPause) {
  workers.start();
  init();
  Step& held = hold(kHeld);
  workers.pause();
  held.let_go();
  kernel.answer();
  const std::uint64_t waits = ask(1);
  EXPECT_FALSE(kernel.has_answer());
  workers.start();
  EXPECT_EQ(kernel.answer().unique, waits);
}

TEST_F(WorkerThreadsTest, APauseIsNoEndOfTheMount) {
  workers.start();
  init();
  workers.pause();
  while (threads() != 0) std::this_thread::yield();
  EXPECT_EQ(events.wait_for(0ms), std::nullopt);
  workers.pause();
  workers.pause();  // without any thread
  workers.start();
  expect_answer(1);
}

TEST_F(WorkerThreadsTest, ThePauseEndsAlthoughAThreadIsBusyFromBefore) {
  workers.start();
  init();
  Step& held = hold(kHeld);
  workers.pause();
  workers.start();
  expect_answer(1);
  held.let_go();
  kernel.answer();
}

TEST_F(WorkerThreadsTest, AnswersWhatAnotherProcessHasTaken) {
  workers.start();
  init();
  workers.pause();
  std::vector<std::string> taken;
  std::set<std::uint64_t> expected;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(kernel.request(FUSE_GETATTR, 1, bytes_of(fuse_getattr_in{})));
    expected.insert(as<fuse_in_header>(taken.back()).unique);
  }
  workers.start(taken);
  std::set<std::uint64_t> answered;
  for (std::size_t i = 0; i < taken.size(); ++i) answered.insert(kernel.answer().unique);
  EXPECT_EQ(answered, expected);
  expect_answer(1);
}

TEST_F(WorkerThreadsTest, StopWaitsNoLongerThanItsLimit) {
  workers.start();
  init();
  Step& held = hold(kHeld);
  EXPECT_FALSE(workers.stop(0ms));
  held.let_go();
  EXPECT_TRUE(workers.stop(1h));
  kernel.answer();
}

TEST_F(WorkerThreadsTest, StopWaitsForAThreadThatNeedsItsTime) {
  workers.start();
  init();
  Step& held = hold(kHeld);
  std::thread releasing([&held] {
    constexpr int kPatientKicks = 30;  // a signal would leave time for some of them
    while (kicks < kPatientKicks) std::this_thread::yield();
    held.let_go();
  });
  EXPECT_TRUE(workers.stop(1h));
  releasing.join();
  kernel.answer();
}

TEST_F(WorkerThreadsTest, ASignalCutsTheWaitOfStopShort) {
  workers.start();
  init();
  Step& held = hold(kHeld);
  std::vector<Event> seen;
  for (const Event event : {Event::kSignal, Event::kStall}) events.post(event);
  EXPECT_FALSE(workers.stop(1h, [&](Event event) { seen.push_back(event); }));
  EXPECT_EQ(std::count(seen.begin(), seen.end(), Event::kSignal), 1);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), Event::kStall), 1) << "there is a little time yet";
  held.let_go();
}

TEST_F(WorkerThreadsTest, EndsWithTheMount) {
  fail_reads({ENODEV});
  workers.start();
  EXPECT_EQ(events.wait(), Event::kEnded);
  EXPECT_EQ(workers.error(), 0);
}

TEST_F(WorkerThreadsTest, EndsWithAMountThatGoesAwayWhileARequestIsTaken) {
  fail_reads({ECONNABORTED});
  workers.start();
  EXPECT_EQ(events.wait(), Event::kEnded);
  EXPECT_EQ(workers.error(), 0);
}

TEST_F(WorkerThreadsTest, SaysWithWhichErrorItGaveUp) {
  fail_reads({EBADF});
  workers.start();
  EXPECT_EQ(events.wait(), Event::kEnded);
  EXPECT_TRUE(workers.stop(1h));
  EXPECT_EQ(workers.error(), EBADF);
}

TEST_F(WorkerThreadsTest, GoesOnWhereNothingCameAfterAll) {
  fail_reads({EAGAIN, EINTR, EAGAIN});
  workers.start();
  init();
}

TEST_F(WorkerThreadsTest, WaitsThreeTimesForMemoryBeforeTheMountIsLive) {
  fail_reads({ENOMEM, ENOMEM, ENOMEM});
  workers.start();
  init();
}

TEST_F(WorkerThreadsTest, GivesUpBeforeTheMountIsLiveIfThereStillIsNoMemory) {
  fail_reads({ENOMEM, ENOMEM, ENOMEM, ENOMEM});
  workers.start();
  EXPECT_EQ(events.wait(), Event::kEnded);
  EXPECT_TRUE(workers.stop(1h));
  EXPECT_EQ(workers.error(), ENOMEM);
}

TEST_F(WorkerThreadsTest, ALiveMountWaitsForMemoryWithoutALimit) {
  workers.start();
  init();
  fail_reads({ENOMEM, ENOMEM, ENOMEM, ENOMEM, ENOMEM, ENOMEM});
  expect_answer(1);  // the thread that waits for requests has begun to read before
  for (int i = 0; i < 3; ++i) expect_answer(1);
}

}  // namespace
}  // namespace reshardfs::test
