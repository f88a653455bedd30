// SPDX-License-Identifier: Apache-2.0
#include "fuse/directory_opener.h"

#include <atomic>
#include <cerrno>
#include <latch>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(DirectoryOpener, AnswersOnTheCallersThreadWithWhatOpeningGave) {
  DirectoryOpener opener(1, [](InodeNumber inode) { return inode == 7 ? EIO : 0; });
  int answered = -1;
  std::thread::id on;
  opener.submit(7, [&](int error) {
    answered = error;
    on = std::this_thread::get_id();
  });
  EXPECT_EQ(answered, EIO);
  EXPECT_EQ(on, std::this_thread::get_id());
  opener.submit(8, [&](int error) { answered = error; });
  EXPECT_EQ(answered, 0);
}

TEST(DirectoryOpener, RequestsForOneDirectoryShareOneOpening) {
  std::latch entered(1);
  std::latch release(1);
  std::atomic<int> opened = 0;
  std::atomic<int> answered = 0;
  DirectoryOpener opener(4, [&](InodeNumber) {
    ++opened;
    entered.count_down();
    release.wait();
    return 0;
  });
  const auto count = [&](int error) {
    EXPECT_EQ(error, 0);
    ++answered;
  };
  std::thread first([&] { opener.submit(5, count); });
  entered.wait();
  for (int i = 0; i < 9; ++i) opener.submit(5, count);  // returns at once
  EXPECT_EQ(answered, 0);
  release.count_down();
  first.join();
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(answered, 10);
}

TEST(DirectoryOpener, StalledOnesLeavePermitsForOthersAndQueueBeyond) {
  std::counting_semaphore<> entered(0);
  std::latch release(1);
  std::atomic<int> answered = 0;
  DirectoryOpener opener(2, [&](InodeNumber inode) {
    entered.release();
    if (inode < 10) release.wait();
    return 0;
  });
  const auto count = [&](int) { ++answered; };
  std::thread one([&] { opener.submit(1, count); });
  entered.acquire();
  opener.submit(10, count);
  EXPECT_EQ(answered, 1) << "one stalled directory does not keep another";
  std::thread two([&] { opener.submit(2, count); });
  entered.acquire();
  entered.acquire();
  opener.submit(11, count);  // all permits are taken: queued, and this thread is free
  opener.submit(11, count);
  EXPECT_EQ(answered, 1);
  release.count_down();
  one.join();
  two.join();
  EXPECT_EQ(answered, 5);
}

TEST(DirectoryOpener, AnswersEveryRequestOnceUnderContention) {
  std::atomic<int> answered = 0;
  DirectoryOpener opener(2, [](InodeNumber) { return 0; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (InodeNumber i = 0; i < 3000; ++i) opener.submit(i % 3, [&](int) { ++answered; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 18000);
}

}  // namespace
}  // namespace reshardfs
