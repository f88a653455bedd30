// SPDX-License-Identifier: Apache-2.0
#include "storage/local/mapped_gather.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/process/counters.h"
#include "storage/byte_source.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::TempDir;

constexpr std::size_t kFileBytes = 300'001;

std::string mixed_bytes(std::size_t count) {
  std::string out(count, '\0');
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<char>((i * 2654435761U) >> 13U);
  return out;
}

/// A file of mixed bytes, open.
class MappedGather : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = dir_.write("a.ckpt", bytes_);
    fd_ = ::open(path_.c_str(), O_RDONLY);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override { ::close(fd_); }

  /// Every range behind the one before it.
  std::string expected(const StridedRanges& ranges) const {
    std::string out;
    for (std::uint64_t i = 0; i < ranges.count(); ++i) {
      out += bytes_.substr(ranges.offset_of(i), ranges.length());
    }
    return out;
  }

  TempDir dir_;
  const std::string bytes_ = mixed_bytes(kFileBytes);
  std::filesystem::path path_;
  int fd_ = -1;
};

StridedRanges packed(std::uint64_t offset, std::uint64_t length, std::uint64_t stride,
                     std::uint64_t count) {
  return {ByteRange(offset, length), count, {.source = stride, .memory = length}};
}

/// Nothing if it was given up.
std::string gather(int fd, const StridedRanges& ranges) {
  std::string out(ranges.count() * ranges.length(), '?');
  if (!gather_from_map(fd, ranges, reinterpret_cast<std::byte*>(out.data()))) return "";
  return out;
}

TEST_F(MappedGather, CopiesPiecesOfAnyLengthFromAnyOffset) {
  for (const std::uint64_t length : {1U, 2U, 3U, 4U, 8U, 16U, 32U, 64U, 100U, 4096U}) {
    for (const std::uint64_t offset : {0U, 1U, 4095U, 4096U, 70'000U}) {
      const StridedRanges ranges = packed(offset, length, length + 777, 40);
      EXPECT_EQ(gather(fd_, ranges), expected(ranges)) << length << " from " << offset;
    }
  }
  const StridedRanges last =
      packed(kFileBytes - 100, 1, 33, 4);  // the file's last byte is among them
  EXPECT_EQ(last.span().end(), kFileBytes);
  EXPECT_EQ(gather(fd_, last), expected(last));
}

TEST_F(MappedGather, LeavesWhatLiesBetweenPiecesInMemoryAlone) {
  std::string out(50, '.');
  const StridedRanges ranges(ByteRange(5, 2), 3, {.source = 100, .memory = 20});
  ASSERT_TRUE(gather_from_map(fd_, ranges, reinterpret_cast<std::byte*>(out.data())));
  std::string wanted(50, '.');
  for (const std::size_t i : {0U, 1U, 2U}) wanted.replace(20 * i, 2, bytes_, 5 + 100 * i, 2);
  EXPECT_EQ(out, wanted);
}

TEST_F(MappedGather, GivesUpOnPagesThatTheFileHasLost) {
  const StridedRanges ranges = packed(0, 8, 1000, 300);
  std::filesystem::resize_file(path_, 100'000);
  EXPECT_EQ(gather(fd_, ranges), "");
  EXPECT_EQ(gather(fd_, ranges), "");  // the second time as well: the signal is not left blocked
  const StridedRanges there = packed(0, 8, 1000, 99);
  EXPECT_EQ(gather(fd_, there), expected(there));
}

TEST_F(MappedGather, GivesUpOnAnEmptyFile) {
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(gather(fd_, packed(0, 8, 16, 4)), "");
}

TEST_F(MappedGather, GivesUpOnWhatCannotBeMapped) {
  EXPECT_EQ(gather(-1, packed(0, 8, 16, 4)), "");
}

TEST_F(MappedGather, SurvivesWhereTheSignalIsBlocked) {
  std::filesystem::resize_file(path_, 10'000);
  std::thread([&] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    EXPECT_EQ(gather(fd_, packed(0, 8, 1000, 300)), "");
  }).join();
}

TEST_F(MappedGather, SurvivesAFileThatShrinksUnderManyReaders) {
  std::atomic<bool> stop = false;
  std::atomic<int> right = 0;
  std::atomic<int> wrong = 0;
  std::atomic<int> given_up = 0;
  const StridedRanges ranges = packed(3, 32, 512, 580);
  const std::string whole = expected(ranges);
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const std::string got = gather(fd_, ranges);
        // Zeros stand for what the last page has lost; the file's size then tells the rest.
        if (got.empty()) {
          ++given_up;
        } else {
          ++(got == whole ? right : wrong);
        }
      }
    });
  }
  while (given_up < 50 || right < 50) {
    std::filesystem::resize_file(path_, 8192);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    dir_.write("a.ckpt", bytes_);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

/// A page of a map that the file behind it does not have. Next to no other map: those of files end
/// with a whole page, whatever its size is.
char* lost_page(const std::filesystem::path& path) {
  constexpr std::size_t kLargestPage = 64 << 10;
  const int fd = ::open(path.c_str(), O_RDWR);
  std::filesystem::resize_file(path, 0);
  auto* const alone = static_cast<char*>(
      ::mmap(nullptr, 3 * kLargestPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return static_cast<char*>(
      ::mmap(alone + kLargestPage, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
}
[[noreturn]] void touch_a_lost_page(const std::filesystem::path& path) {
  std::_Exit(*static_cast<const volatile char*>(lost_page(path)));
}

using MappedGatherDeathTest = MappedGather;

TEST_F(MappedGatherDeathTest, LeavesTheFaultsOfOthersAlone) {
  const StridedRanges ranges = packed(0, 8, 16, 4);
  gather(fd_, ranges);
  // A sanitizer's handler, to which they are passed on, ends the process in another way.
  auto* const out = reinterpret_cast<std::byte*>(lost_page(dir_.write("out", "x")));
  EXPECT_DEATH(gather_from_map(fd_, ranges, out), "") << "of what it copies into, too";
  EXPECT_DEATH(touch_a_lost_page(path_), "");
  EXPECT_DEATH(::raise(SIGBUS), "");
  EXPECT_DEATH(::kill(::getpid(), SIGBUS), "");
}

/// In a program of its own, whose handler was there first.
TEST_F(MappedGatherDeathTest, PassesTheFaultsOfOthersOn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touch_behind = [&](const struct sigaction& own) {
    ::sigaction(SIGBUS, &own, nullptr);
    gather(fd_, packed(0, 8, 16, 4));
    touch_a_lost_page(path_);
  };
  struct sigaction with_address {};
  with_address.sa_flags = SA_SIGINFO;
  with_address.sa_sigaction = [](int, siginfo_t* info, void*) {
    ::_exit(info->si_addr != nullptr ? 7 : 1);
  };
  EXPECT_EXIT(touch_behind(with_address), testing::ExitedWithCode(7), "");
  struct sigaction simple {};
  simple.sa_handler = [](int signal) { ::_exit(signal == SIGBUS ? 8 : 1); };
  EXPECT_EXIT(touch_behind(simple), testing::ExitedWithCode(8), "");
  for (const auto none : {SIG_DFL, SIG_IGN}) {
    struct sigaction action {};
    action.sa_handler = none;
    EXPECT_EXIT(touch_behind(action), testing::KilledBySignal(SIGBUS), "");
  }
}

TEST(LocalFileGather, CountsTheBytesOfThePiecesAlone) {
  const TempDir dir;
  const std::string bytes = mixed_bytes(100'000);
  const ByteSourcePtr source = open_local_file(dir.write("a.ckpt", bytes));
  const CounterValues before = counters().values();
  std::string out(4 * 7, '?');
  EXPECT_TRUE(source->gather(packed(10, 4, 10'000, 7), reinterpret_cast<std::byte*>(out.data())));
  EXPECT_EQ(out.substr(4, 4), bytes.substr(10'010, 4));
  EXPECT_EQ(counters().values().source_bytes() - before.source_bytes(), 28U);
}

TEST(LocalFileGather, RefusesPiecesThatLeaveTheFile) {
  const TempDir dir;
  const ByteSourcePtr source = open_local_file(dir.write("a.ckpt", mixed_bytes(8000)));
  std::vector<std::byte> out(8192);
  EXPECT_TRUE(source->gather(packed(0, 4, 7996, 2), out.data()));
  EXPECT_FALSE(source->gather(packed(0, 4, 7997, 2), out.data()));
  EXPECT_FALSE(source->gather(packed(9000, 1, 2, 1), out.data()));
  EXPECT_FALSE(source->gather(packed(~0ULL - 1, 1, 2, 1), out.data()));
}

}  // namespace
}  // namespace reshardfs
