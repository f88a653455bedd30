// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted_verified.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "storage/stuck_read.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;

/// Calls `work` in several threads.
template <class Work>
void in_threads(int count, const Work& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& thread : threads) thread.join();
}

TEST(VerifiedBlocks, VerifiesEachBlockOnce) {
  VerifiedBlocks blocks(3);
  std::vector<int> calls(3);
  for (const std::size_t block : {2U, 0U, 2U, 1U, 0U, 1U, 2U}) {
    blocks.require(block, [&] { ++calls[block]; });
    EXPECT_EQ(calls[block], 1);
  }
}

TEST(VerifiedBlocks, LetsOthersWaitForTheFirst) {
  VerifiedBlocks blocks(1);
  int calls = 0;  // the wait makes it safe to read
  in_threads(8, [&](int) {
    blocks.require(0, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ++calls;
    });
    EXPECT_EQ(calls, 1);
  });
}

TEST(VerifiedBlocks, VerifiesDifferentBlocksAtOnce) {
  VerifiedBlocks blocks(2);
  std::latch both(2);
  in_threads(2, [&](int t) {
    blocks.require(static_cast<std::uint64_t>(t), [&] { both.arrive_and_wait(); });
  });
}

TEST(VerifiedBlocks, TriesAgainAfterAFailure) {
  VerifiedBlocks blocks(1);
  for (int i = 0; i < 2; ++i) {
    expect_error(ErrorKind::kIo, {"no luck"},
                 [&] { blocks.require(0, [] { throw Error(ErrorKind::kIo, "no luck"); }); });
  }
  EXPECT_THROW(blocks.require(0, [] { throw std::runtime_error("worse"); }), std::runtime_error);
  int calls = 0;
  for (int i = 0; i < 2; ++i) blocks.require(0, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

/// Who waits may be on a thread that nothing but errors may leave.
TEST(VerifiedBlocks, LetsOthersTryWhatAThreadHasLeft) {
  VerifiedBlocks blocks(1);
  std::atomic<int> left = 0;
  std::atomic<int> verified = 0;
  std::latch begun(1);
  in_threads(2, [&](int t) {
    if (t == 1) begun.wait();
    try {
      blocks.require(0, [&] {
        if (t == 1) return static_cast<void>(++verified);
        begun.count_down();
        throw StuckRead{};
      });
    } catch (const StuckRead&) {
      EXPECT_EQ(t, 0);
      ++left;
    }
  });
  EXPECT_EQ(left, 1);
  EXPECT_EQ(verified, 1);
}

TEST(VerifiedBlocks, GivesAllThatWaitAnErrorOfTheirOwn) {
  VerifiedBlocks blocks(1);
  std::atomic<int> calls = 0;
  std::atomic<int> failed = 0;
  in_threads(4, [&](int t) {
    try {
      blocks.require(0, [&] {
        ++calls;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        throw Error(ErrorKind::kIo, "no luck");
      });
    } catch (Error& error) {
      error.in_file("file " + std::to_string(t));
      EXPECT_EQ(error.file(), "file " + std::to_string(t));
      ++failed;
    }
  });
  EXPECT_EQ(failed, 4);
  EXPECT_LT(calls, 4) << "none of them waited";
}

}  // namespace
}  // namespace reshardfs
