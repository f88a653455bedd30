// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/stream_windows.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

constexpr std::uint64_t kKib = 1 << 10;
constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kRead = 128 * kKib;
constexpr std::uint64_t kLargest = 64 * kMib;
constexpr std::uint64_t kFirst = StreamWindows::kFirst;

/// A file that one program reads; time stands still unless the test moves it.
class StreamWindowsTest : public testing::Test {
 protected:
  StreamWindows::Advice read(std::uint64_t offset, const void* file = nullptr,
                             std::uint64_t largest = kLargest) {
    return windows_.advance(file == nullptr ? this : file, size_, ByteRange(offset, kRead), largest,
                            now_);
  }
  /// From one offset to another; checks that what is advised follows on what was.
  /// @return the furthest that was advised beyond what had been read
  std::uint64_t read_through(std::uint64_t begin, std::uint64_t end, const void* file = nullptr,
                             std::uint64_t largest = kLargest) {
    std::uint64_t furthest = 0;
    for (std::uint64_t at = begin; at < end; at += kRead) {
      const auto advice = read(at, file, largest);
      if (advice.ahead.empty()) continue;
      if (horizon_ != 0) {
        EXPECT_EQ(advice.ahead.offset(), std::max(horizon_, at + kRead));
      }
      horizon_ = advice.ahead.end();
      EXPECT_LE(horizon_, size_);
      furthest = std::max(furthest, horizon_ - (at + kRead));
    }
    return furthest;
  }

  /// Threads that read blocks of a file by turns, each in requests of 1 MiB; the order of a round's
  /// requests is random.
  /// @return the bytes that were advised before anybody read them; checks that none was twice
  std::uint64_t advised_for_threads(std::uint64_t threads, std::uint64_t block) {
    constexpr std::uint64_t kRequest = kMib;
    std::mt19937 numbers(7);
    std::vector<std::uint64_t> order(threads);
    std::iota(order.begin(), order.end(), 0);
    std::vector<unsigned> advised(size_ / kRequest);
    std::vector<bool> was_read(size_ / kRequest);
    std::uint64_t in_time = 0;
    std::uint64_t again = 0;
    for (std::uint64_t first = 0; first < size_; first += threads * block) {
      for (std::uint64_t in_block = 0; in_block < block; in_block += kRequest) {
        std::ranges::shuffle(order, numbers);
        for (const std::uint64_t thread : order) {
          const std::uint64_t at = first + thread * block + in_block;
          const auto ahead =
              windows_.advance(this, size_, ByteRange(at, kRequest), kLargest, now_).ahead;
          was_read[at / kRequest] = true;
          for (std::uint64_t i = ahead.offset() / kRequest; i < ahead.end() / kRequest; ++i) {
            again += ++advised[i] > 1 ? kRequest : 0;
            if (!was_read[i]) in_time += kRequest;
          }
        }
      }
    }
    EXPECT_EQ(again, 0U) << threads << " threads";
    return in_time;
  }

  StreamWindows windows_;
  std::uint64_t size_ = 1024 * kMib;
  std::uint64_t horizon_ = 0;
  StreamWindows::Clock::time_point now_{std::chrono::seconds(1000)};
};

TEST_F(StreamWindowsTest, ASecondReadInARowBeginsAStream) {
  EXPECT_TRUE(read(0).ahead.empty());
  const auto second = read(kRead);
  EXPECT_FALSE(second.foreseen);
  EXPECT_EQ(second.ahead, ByteRange(2 * kRead, kFirst));
  const auto third = read(2 * kRead);
  EXPECT_TRUE(third.foreseen);
  EXPECT_TRUE(third.ahead.empty()) << "no small steps";
}

TEST_F(StreamWindowsTest, AFileThatIsReadFromItsBeginningMayBeAStreamAtOnce) {
  StreamWindows windows(StreamWindows::Begin::kAtFirstByte);
  const ByteRange begin = ByteRange::whole(kRead);
  EXPECT_EQ(windows.advance(this, size_, begin, kLargest, now_).ahead, ByteRange(kRead, kFirst));
  const ByteRange elsewhere(100 * kMib, kRead);
  EXPECT_TRUE(windows.advance(this, size_, elsewhere, kLargest, now_).ahead.empty());
}

TEST_F(StreamWindowsTest, WhoReadsAFileAgainIsAheadAgain) {
  StreamWindows windows(StreamWindows::Begin::kAtFirstByte);
  for (const std::uint64_t size : {16 * kMib, 200 * kMib, 500 * kMib}) {
    for (int round = 0; round < 3; ++round) {
      std::uint64_t advised = 0;
      for (std::uint64_t at = 0; at < size; at += kRead) {
        advised += windows.advance(this, size, ByteRange(at, kRead), kLargest, now_).ahead.length();
      }
      EXPECT_EQ(advised, size - kRead) << "round " << round;
    }
    windows.forget(this);
  }
}

TEST_F(StreamWindowsTest, TheWindowDoublesUpToItsLimit) {
  read_through(0, 2 * kRead);
  std::uint64_t window = kFirst;
  std::vector<std::uint64_t> seen;
  for (std::uint64_t at = 2 * kRead; at < 200 * kMib; at += kRead) {
    const auto advice = read(at);
    EXPECT_TRUE(advice.foreseen);
    if (advice.ahead.empty()) continue;
    const std::uint64_t ahead = advice.ahead.end() - (at + kRead);
    EXPECT_LE(ahead, 2 * window);
    if (ahead > window) seen.push_back(window = ahead);
  }
  EXPECT_EQ(seen,
            (std::vector<std::uint64_t>{4 * kMib, 8 * kMib, 16 * kMib, 32 * kMib, 64 * kMib}));
}

TEST_F(StreamWindowsTest, AWindowMovesInStepsOfAMebibyte) {
  std::vector<std::uint64_t> at;
  for (std::uint64_t offset = 0; offset < 4 * kMib; offset += kRead) {
    const auto ahead = read(offset, nullptr, kFirst).ahead;
    if (ahead.empty()) continue;
    at.push_back(offset + kRead);
    EXPECT_EQ(ahead.length(), at.size() == 1 ? kFirst : kMib);
    EXPECT_EQ(ahead.end(), offset + kRead + kFirst);
  }
  EXPECT_EQ(at, (std::vector<std::uint64_t>{2 * kRead, 2 * kRead + kMib, 2 * kRead + 2 * kMib,
                                            2 * kRead + 3 * kMib}));
}

TEST_F(StreamWindowsTest, AWindowDoublesWhenAQuarterOfItHasBeenRead) {
  std::vector<std::uint64_t> grows;
  std::uint64_t window = 0;
  for (std::uint64_t at = 0; at < 40 * kMib; at += kRead) {
    const auto ahead = read(at).ahead;
    if (ahead.empty()) continue;
    const std::uint64_t now = ahead.end() - (at + kRead);
    if (now > window) grows.push_back(at + kRead);
    window = std::max(now, window);
  }
  const std::uint64_t first = 2 * kRead;
  EXPECT_EQ(grows, (std::vector<std::uint64_t>{first, first + kMib / 2, first + 3 * kMib / 2,
                                               first + 7 * kMib / 2, first + 15 * kMib / 2,
                                               first + 31 * kMib / 2}));
}

TEST_F(StreamWindowsTest, AReadMayPassOverALittle) {
  read(0);
  EXPECT_FALSE(read(kRead + 64 * kKib).ahead.empty());
  const char other = 0;
  read(0, &other);
  EXPECT_TRUE(read(kRead + 64 * kKib + 1, &other).ahead.empty());
}

TEST_F(StreamWindowsTest, ManyReadsThatAreNearEachOtherAreAStream) {
  std::uint64_t at = 0;
  const auto next = [&](std::uint64_t gap) {
    at += kRead + gap;
    return !read(at).ahead.empty();
  };
  read(0);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(next(kMib));
  EXPECT_FALSE(next(4 * kMib + 1)) << "further away";
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(next(kMib));
  EXPECT_TRUE(next(4 * kMib));
}

TEST_F(StreamWindowsTest, AWindowReachesALittleBeyondWhatWasAdvised) {
  const std::uint64_t limit = 2 * kRead + kFirst + 4 * kMib;
  read_through(0, 2 * kRead);
  EXPECT_FALSE(read(limit).ahead.empty());
  const char other = 0;
  horizon_ = 0;
  read_through(0, 2 * kRead, &other);
  EXPECT_TRUE(read(limit + 1, &other).ahead.empty());
}

TEST_F(StreamWindowsTest, AdvisesEachByteOnceUpToTheEnd) {
  size_ = 50 * kMib + 3;
  read_through(0, 50 * kMib);
  EXPECT_EQ(horizon_, size_);
  EXPECT_TRUE(read(50 * kMib - kRead).ahead.empty());
}

TEST_F(StreamWindowsTest, TheFirstWindowIsTheSmallest) {
  EXPECT_EQ(read_through(0, 40 * kMib, nullptr, 1), kFirst);
}

TEST_F(StreamWindowsTest, AWindowShrinksWithItsLimit) {
  read_through(0, 200 * kMib);
  EXPECT_EQ(read_through(200 * kMib, 400 * kMib, nullptr, 8 * kMib), 8 * kMib);
}

TEST_F(StreamWindowsTest, ReadsInDisorderAreOneStream) {
  read_through(0, 2 * kRead);
  horizon_ = 2 * kRead + kFirst;
  for (std::uint64_t at = 2 * kRead; at < 100 * kMib; at += 8 * kRead) {
    for (const std::uint64_t place : {3U, 1U, 0U, 2U, 7U, 6U, 5U, 4U}) {
      const auto advice = read(at + place * kRead);
      EXPECT_TRUE(advice.foreseen) << at << " " << place;
      if (advice.ahead.empty()) continue;
      EXPECT_EQ(advice.ahead.offset(), horizon_);
      horizon_ = advice.ahead.end();
    }
  }
}

TEST_F(StreamWindowsTest, ThreadsThatTakeBlocksByTurnsAreOneReader) {
  struct Case {
    std::uint64_t threads = 0;
    std::uint64_t block = 0;
  };
  for (const auto& [threads, block] : {Case{2, 2 * kMib}, Case{4, 2 * kMib}, Case{16, 2 * kMib},
                                       Case{2, 8 * kMib}, Case{4, 8 * kMib}}) {
    windows_.forget(this);
    // All but the first blocks.
    EXPECT_GE(advised_for_threads(threads, block), size_ - 2 * threads * block)
        << threads << " threads, blocks of " << block;
  }
}

TEST_F(StreamWindowsTest, ReadersWhoseRegionsMeetBecomeOne) {
  const std::uint64_t other = 40 * kMib;
  read_through(other, other + 2 * kRead);
  horizon_ = 0;
  std::uint64_t end = 0;
  for (std::uint64_t at = 0; at < other; at += kRead) {
    const auto advice = read(at);
    if (advice.ahead.empty()) continue;
    end = advice.ahead.end();
    EXPECT_LE(end, other);
  }
  EXPECT_EQ(end, other);
  // The other one reads on, and what is advised follows on what it was advised of.
  EXPECT_EQ(read(other + 2 * kRead + kFirst - kRead).ahead.offset(), other + 2 * kRead + kFirst);
}

TEST_F(StreamWindowsTest, WhoIsAdvisedOfNothingTakesNoShareOfTheMemory) {
  for (std::uint64_t at = 600; at < 1000; at += 20) read(at * kMib);
  EXPECT_GE(read_through(0, 300 * kMib), kLargest);
}

TEST_F(StreamWindowsTest, WhoJumpsBeginsAnew) {
  read_through(0, 100 * kMib);
  const std::uint64_t far = 500 * kMib;
  const auto jump = read(far);
  EXPECT_FALSE(jump.foreseen);
  EXPECT_TRUE(jump.ahead.empty());
  const auto next = read(far + kRead);
  EXPECT_EQ(next.ahead, ByteRange(far + 2 * kRead, kFirst));
}

TEST_F(StreamWindowsTest, JumpsOfAnyKindAreNoStream) {
  for (const std::uint64_t at : {900U, 10U, 500U, 100U, 700U, 40U, 300U}) {
    const auto advice = read(at * kMib);
    EXPECT_FALSE(advice.foreseen);
    EXPECT_TRUE(advice.ahead.empty());
  }
}

TEST_F(StreamWindowsTest, ReadsHereAndThereAreHardlyEverAStream) {
  size_ = 64 * kMib;
  std::mt19937 numbers(3);
  std::uint64_t advised = 0;
  constexpr int kReads = 5000;
  for (int i = 0; i < kReads; ++i) {
    advised += read(numbers() % (size_ - kRead)).ahead.length();
  }
  EXPECT_LT(advised, kReads * kRead);
}

TEST_F(StreamWindowsTest, ASkipWithinTheWindowStays) {
  read_through(0, 2 * kRead);
  const std::uint64_t skipped = 2 * kRead + kFirst + kMib;
  const auto advice = read(skipped);
  EXPECT_FALSE(advice.foreseen);
  EXPECT_EQ(advice.ahead.offset(), skipped + kRead) << "nothing behind the reader";
}

TEST_F(StreamWindowsTest, ReadersShareTheLimit) {
  const std::array<char, 4> files{};
  std::uint64_t furthest = 0;
  for (std::uint64_t at = 0; at < 200 * kMib; at += kRead) {
    for (const char& file : files) {
      const auto advice = read(at, &file);
      if (!advice.ahead.empty()) furthest = std::max(furthest, advice.ahead.end() - (at + kRead));
    }
  }
  EXPECT_EQ(furthest, kLargest / 4);
  now_ += StreamWindows::kActive + std::chrono::milliseconds(1);
  horizon_ = 0;
  EXPECT_EQ(read_through(200 * kMib, 500 * kMib, &files[2]), kLargest) << "the others have ended";
}

TEST_F(StreamWindowsTest, ReadersOfOneFileAreToldApart) {
  for (std::uint64_t at = 0; at < 20 * kMib; at += kRead) {
    const auto one = read(at);
    const auto other = read(600 * kMib + at);
    if (at < 2 * kRead) continue;
    EXPECT_TRUE(one.foreseen);
    EXPECT_TRUE(other.foreseen);
  }
}

TEST_F(StreamWindowsTest, CostsMakeTheWindowSmaller) {
  read(0);
  windows_.set_cost(this, 8);
  EXPECT_EQ(read_through(kRead, 200 * kMib), kLargest / 8);
  windows_.set_cost(this, 0);
  EXPECT_EQ(read_through(200 * kMib, 500 * kMib), kLargest) << "as if it were 1";
  windows_.set_cost(this, std::uint64_t{1} << 60U);
  EXPECT_EQ(read_through(500 * kMib, 900 * kMib), kFirst);
}

TEST_F(StreamWindowsTest, ForgottenFilesBeginAnew) {
  const char other = 0;
  read_through(0, 2 * kRead);
  read(0, &other);
  windows_.forget(this);
  EXPECT_TRUE(read(2 * kRead).ahead.empty());
  EXPECT_FALSE(read(kRead, &other).ahead.empty()) << "it was not forgotten";
}

TEST_F(StreamWindowsTest, TheOldestOfTooManyIsForgotten) {
  const std::vector<char> files(StreamWindows::kMaxStreams + 1);
  for (const char& file : files) read(0, &file);
  EXPECT_FALSE(read(kRead, &files.back()).ahead.empty());
  EXPECT_FALSE(read(kRead, &files[1]).ahead.empty());
  EXPECT_TRUE(read(kRead, files.data()).ahead.empty());
}

TEST_F(StreamWindowsTest, EmptyAndShortFilesAreNothingSpecial) {
  size_ = 0;
  EXPECT_TRUE(windows_.advance(this, 0, ByteRange(), kLargest, now_).ahead.empty());
  EXPECT_TRUE(windows_.advance(this, 0, ByteRange(), kLargest, now_).ahead.empty());
  const char other = 0;
  size_ = 3 * kRead;
  read(0, &other);
  EXPECT_EQ(read(kRead, &other).ahead, ByteRange(2 * kRead, kRead));
  EXPECT_TRUE(read(2 * kRead, &other).ahead.empty());
}

TEST_F(StreamWindowsTest, ManyThreadsAskAtOnce) {
  std::vector<std::thread> threads;
  const std::array<char, 8> files{};
  for (std::size_t i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      const char* const file = &files[i % files.size()];
      for (std::uint64_t at = 0; at < 20 * kMib; at += kRead) {
        const auto advice = read(at, file);
        EXPECT_LE(advice.ahead.end(), size_);
        if (at % (4 * kMib) == 0) windows_.set_cost(file, i);
      }
      windows_.forget(file);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace reshardfs
