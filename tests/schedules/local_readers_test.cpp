// SPDX-License-Identifier: Apache-2.0
/// Threads that read for others: each read that is asked for is made, once, and begins without
/// waiting for time to pass; never more at a time than is allowed.
#include "storage/local/local_readers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "schedule.h"
#include "storage/local/file_system_speed.h"

namespace reshardfs::schedules {
namespace {

constexpr std::size_t kReaders = 3;
constexpr std::size_t kReadsEach = 5;
constexpr unsigned kAtOnce = 2;

struct Tally {
  std::vector<unsigned> runs = std::vector<unsigned>(kReaders * kReadsEach);
  unsigned at_once = 0;
  unsigned most_at_once = 0;
  std::uint64_t begun = 0;  ///< as the readers count
};

/// What the reads have in common. Each gives way in its middle, where others may begin.
class Reads {
 public:
  explicit Reads(Tally& tally) : tally_(tally) {}

  void make(std::size_t number) {
    std::unique_lock lock(mutex_);
    ++tally_.runs[number];
    tally_.most_at_once = std::max(tally_.most_at_once, ++tally_.at_once);
    lock.unlock();
    lock.lock();
    --tally_.at_once;
    has_ended_[number] = true;
    one_ended_.notify_all();
  }
  void wait_for(std::size_t number) {
    std::unique_lock lock(mutex_);
    one_ended_.wait(lock, [&] { return has_ended_[number]; });
  }

 private:
  Tally& tally_;
  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::vector<bool> has_ended_ = std::vector<bool>(kReaders * kReadsEach);
};

Tally read_all() {
  Tally tally;
  Reads reads(tally);
  LocalReaders::Limits limits;
  limits.at_once = limits.ahead_at_once = kAtOnce;
  limits.patience = std::chrono::hours(1);
  LocalReaders readers(limits);
  const auto speed = std::make_shared<FileSystemSpeed>();
  const std::vector<LocalReaders::FilePtr> files{LocalReaders::file_of(speed),
                                                 LocalReaders::file_of(speed)};
  std::vector<std::thread> users;
  for (std::size_t i = 0; i < kReaders; ++i) {
    users.emplace_back([&, i] {
      for (std::size_t k = 0; k < kReadsEach; ++k) {
        const std::size_t number = i * kReadsEach + k;
        readers.submit(files[random_below(files.size())],
                       random_below(3) == 0 ? Foresight::kAhead : Foresight::kNow,
                       [&reads, number] { reads.make(number); });
        // Often, so that those who read have nothing to do in between.
        if (random_below(2) == 0) reads.wait_for(number);
      }
    });
  }
  for (std::thread& user : users) user.join();
  for (std::size_t number = 0; number < kReaders * kReadsEach; ++number) reads.wait_for(number);
  tally.begun = readers.figures().reads;
  allow_time();  // the threads wait for more to do
  return tally;
}

TEST(LocalReadersSchedules, MakeEachReadOnce) {
  std::uint64_t steps = 0;
  for_each_seed(100, [&](const Options& options) {
    Tally tally;
    const Outcome outcome = run(options, [&] { tally = read_all(); });
    EXPECT_EQ(tally.runs, std::vector<unsigned>(kReaders * kReadsEach, 1));
    EXPECT_EQ(tally.begun, kReaders * kReadsEach);
    EXPECT_LE(tally.most_at_once, kAtOnce);
    EXPECT_EQ(outcome.rescued, 0U) << "no thread was called for a read";
    steps += outcome.steps;
  });
  std::printf("%lu steps\n", steps);
}

/// The test above can fail.
TEST(LocalReadersSchedules, FindALostNotification) {
  std::uint64_t found = 0;
  for_each_seed(30, [&](Options options) {
    options.lost_notifications = 2;
    found += run(options, [&] { read_all(); }).rescued;
  });
  EXPECT_GT(found, 0U);
}

}  // namespace
}  // namespace reshardfs::schedules
