// SPDX-License-Identifier: Apache-2.0
#include "storage/local/local_readers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hand_fetcher.h"

namespace reshardfs {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::until;
using testing::Test;
using Names = std::vector<std::string>;

/// Nothing is ever stuck.
constexpr milliseconds kEndless = hours(1);
/// Everything is, as soon as somebody looks.
constexpr milliseconds kNone{0};

class LocalReadersTest : public Test {
 protected:
  ~LocalReadersTest() override {
    let_all_go();
    if (readers_) until([this] { return readers_->figures().in_flight == 0; });
  }

  void start(const LocalReaders::Limits& limits) {
    readers_ = std::make_unique<LocalReaders>(limits);
  }
  static LocalReaders::FilePtr new_file() {
    return LocalReaders::file_of(std::make_shared<FileSystemSpeed>());
  }
  /// A read that ends when the test says so.
  void submit(const LocalReaders::FilePtr& file, const std::string& name,
              Foresight when = Foresight::kNow) {
    readers_->submit(file, when, [this, name] {
      std::unique_lock lock(mutex_);
      begun_.push_back(name);
      changed_.notify_all();
      changed_.wait(lock, [&] { return all_may_go_ || may_go_.contains(name); });
    });
  }
  void let_go(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    may_go_.insert(name);
    changed_.notify_all();
  }
  void let_all_go() {
    const std::scoped_lock lock(mutex_);
    all_may_go_ = true;
    changed_.notify_all();
  }
  /// Waits until so many have begun. @return their names in that order.
  Names await(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_.size() >= count; });
    return begun_;
  }
  Names sorted(std::size_t count) {
    Names names = await(count);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::unique_ptr<LocalReaders> readers_;

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Names begun_;
  std::set<std::string> may_go_;
  bool all_may_go_ = false;
};

TEST_F(LocalReadersTest, ReadManyRangesOfAFileAtOnce) {
  start({.at_once = 8, .of_file = 3, .patience = kEndless});
  const auto file = new_file();
  for (const char* name : {"1", "2", "3", "4"}) submit(file, name);
  EXPECT_EQ(sorted(3), (Names{"1", "2", "3"}));
  const auto other = new_file();
  submit(other, "other");
  EXPECT_EQ(await(4).back(), "other");
  EXPECT_EQ(readers_->figures().in_flight, 4U);
  let_go("2");
  EXPECT_EQ(await(5).back(), "4");
  EXPECT_EQ(readers_->figures().reads, 5U);
  EXPECT_EQ(readers_->figures().stuck, 0U);
}

TEST_F(LocalReadersTest, ReadWhatIsNeededFirst) {
  start({.at_once = 1, .patience = kEndless});
  const auto file = new_file();
  submit(file, "first");
  await(1);
  submit(file, "ahead", Foresight::kAhead);
  submit(file, "needed");
  let_all_go();
  EXPECT_EQ(await(3), (Names{"first", "needed", "ahead"}));
}

TEST_F(LocalReadersTest, TakeFilesInTurn) {
  start({.at_once = 1, .patience = kEndless});
  const auto one = new_file();
  const auto other = new_file();
  submit(one, "first");
  await(1);
  for (const char* name : {"a1", "a2", "a3"}) submit(one, name);
  for (const char* name : {"b1", "b2"}) submit(other, name);
  let_all_go();
  EXPECT_EQ(await(6), (Names{"first", "a1", "b1", "a2", "b2", "a3"}));
}

TEST_F(LocalReadersTest, LeaveTheirPlacesToOthersWhenAFileHangs) {
  start({.at_once = 2, .of_file = 2, .probe_interval = kNone, .patience = kNone});
  const auto hung = new_file();
  submit(hung, "h1");
  submit(hung, "h2");
  await(2);
  EXPECT_TRUE(readers_->is_stuck(hung));
  EXPECT_EQ(readers_->figures().stuck, 2U);
  const auto good = new_file();
  for (const char* name : {"1", "2", "3"}) {
    let_go(name);
    submit(good, name);
  }
  EXPECT_EQ(sorted(5), (Names{"1", "2", "3", "h1", "h2"}));
  let_all_go();
  until([&] { return readers_->figures().in_flight == 0; });
  EXPECT_FALSE(readers_->is_stuck(hung));
}

TEST_F(LocalReadersTest, LeaveAFileThatHangsUntilItAnswers) {
  start({.probe_interval = kEndless, .patience = kNone});
  const auto hung = new_file();
  submit(hung, "h1");
  await(1);
  EXPECT_TRUE(readers_->is_stuck(hung));
  submit(hung, "h2");
  const auto good = new_file();
  submit(good, "good");
  EXPECT_EQ(await(2), (Names{"h1", "good"}));
  let_go("h1");
  EXPECT_EQ(await(3), (Names{"h1", "good", "h2"}));
}

TEST_F(LocalReadersTest, TryAFileThatHangsNowAndThen) {
  start({.stuck_of_file = 2, .probe_interval = kNone, .patience = kNone});
  const auto hung = new_file();
  for (const char* name : {"h1", "h2", "h3"}) submit(hung, name);
  EXPECT_EQ(sorted(2), (Names{"h1", "h2"}));
  // No more than the limit says.
  const auto good = new_file();
  submit(good, "good");
  EXPECT_EQ(await(3).back(), "good");
  let_go("h2");
  EXPECT_EQ(await(4).back(), "h3");
}

TEST_F(LocalReadersTest, DoNotWaitForAFileSystemThatHangs) {
  start({.stuck_of_file_system = 2, .probe_interval = kEndless, .patience = kNone});
  const auto hanging = std::make_shared<FileSystemSpeed>();
  std::vector<LocalReaders::FilePtr> files;
  for (const char* name : {"h1", "h2"}) {
    files.push_back(LocalReaders::file_of(hanging));
    submit(files.back(), name);
  }
  await(2);
  until([&] { return readers_->figures().stuck == 2; });
  files.push_back(LocalReaders::file_of(hanging));
  submit(files.back(), "h3");
  const auto good = new_file();
  submit(good, "good");
  EXPECT_EQ(await(3).back(), "good");
  let_go("h1");
  EXPECT_EQ(await(4).back(), "h3");
}

TEST_F(LocalReadersTest, WaitLongerForWhatUsuallyTakesLong) {
  start({.patience = kNone});
  const auto file_system = std::make_shared<FileSystemSpeed>();
  for (int i = 0; i < 100; ++i) file_system->note(1, hours(1));
  EXPECT_GT(file_system->usual(), milliseconds(200));
  EXPECT_LE(file_system->usual(), milliseconds(250));
  const auto file = LocalReaders::file_of(file_system);
  submit(file, "late");
  await(1);
  EXPECT_FALSE(readers_->is_stuck(file));
}

TEST(FileSystemSpeed, IsSlowAfterSomeLateReads) {
  FileSystemSpeed speed;
  EXPECT_FALSE(speed.is_slow());
  for (int i = 0; i < 1000; ++i) speed.note(4096, std::chrono::microseconds(900));
  speed.note(4096, milliseconds(20));
  EXPECT_FALSE(speed.is_slow());
  for (int i = 0; i < 3; ++i) {
    // The kernel had more of it in its cache than was asked for.
    for (int j = 0; j < 10; ++j) speed.note(4096, std::chrono::microseconds(3));
    speed.note(4096, milliseconds(20));
  }
  speed.note(4096, milliseconds(20));
  EXPECT_TRUE(speed.is_slow());
}

TEST(FileSystemSpeed, TakesLongReadsToBeLongerOnTheirWay) {
  FileSystemSpeed speed;
  for (int i = 0; i < 100; ++i) speed.note(8 << 20, milliseconds(16));
  EXPECT_FALSE(speed.is_slow());
}

TEST(FileSystemSpeed, IsNotSlowForever) {
  FileSystemSpeed speed;
  for (int i = 0; i < 100; ++i) speed.note(4096, milliseconds(20));
  for (int i = 0; i < 100; ++i) speed.note(4096, std::chrono::microseconds(3));
  EXPECT_TRUE(speed.is_slow());
  for (int i = 0; i < 1000; ++i) speed.note(4096, std::chrono::microseconds(3));
  EXPECT_FALSE(speed.is_slow());
}

TEST(FileSystemSpeed, IsOneForAllFilesOfADevice) {
  const auto first = FileSystemSpeed::of(12345);
  EXPECT_EQ(FileSystemSpeed::of(12345), first);
  EXPECT_NE(FileSystemSpeed::of(12346), first);
}

}  // namespace
}  // namespace reshardfs
