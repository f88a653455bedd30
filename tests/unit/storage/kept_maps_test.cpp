// SPDX-License-Identifier: Apache-2.0
#include "storage/local/kept_maps.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/process/resource_limits.h"
#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "storage/local/mapped_gather.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::TempDir;

constexpr std::uint64_t kWindowBytes = MapWindow::kStep + MapWindow::kOverlap;
constexpr std::uint64_t kMappedFileBytes = 4 * MapWindow::kStep + 12'345;
constexpr std::int64_t kNeverDear = INT64_MAX;

/// A file in which each window's first byte is its number.
class KeptMapsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = dir_.write("a.ckpt", "0");
    fd_ = ::open(path_.c_str(), O_RDWR);
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(::ftruncate(fd_, kMappedFileBytes), 0);
    for (int i = 0; i < 5; ++i) {
      const char digit = static_cast<char>('0' + i);
      ASSERT_EQ(::pwrite(fd_, &digit, 1, i * static_cast<off_t>(MapWindow::kStep)), 1);
    }
  }
  void TearDown() override { ::close(fd_); }

  MapWindowPtr get(KeptMaps& maps, std::uint64_t number) {
    MapWindowPtr window = maps.get(this, number, fd_, kMappedFileBytes);
    if (window) {
      EXPECT_EQ(static_cast<char>(window->bytes()[0]), static_cast<char>('0' + number));
    }
    return window;
  }

  TempDir dir_;
  std::filesystem::path path_;
  int fd_ = -1;
};

TEST(KeptMaps, AreThoseOfAProcessThatHasAddressesForThem) {
  EXPECT_NE(KeptMaps::process().keeps(), is_address_space_limited());
  EXPECT_FALSE(KeptMaps({}).keeps());
}

TEST_F(KeptMapsTest, GivesTheSameWindowAgain) {
  KeptMaps maps({.bytes = 3 * kWindowBytes, .dear_unmap = kNeverDear});
  const MapWindowPtr first = get(maps, 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->bytes().size(), kWindowBytes);
  EXPECT_EQ(get(maps, 1), first);
  EXPECT_NE(get(maps, 2), first);
  EXPECT_EQ(maps.bytes(), 2 * kWindowBytes);
}

TEST_F(KeptMapsTest, EndsTheLastWindowWithTheFile) {
  KeptMaps maps({.bytes = 3 * kWindowBytes, .dear_unmap = kNeverDear});
  EXPECT_EQ(get(maps, 4)->bytes().size(), 12'345);
  EXPECT_EQ(get(maps, 3)->bytes().size(), MapWindow::kStep + 12'345);
}

TEST_F(KeptMapsTest, LetsGoOfTheLeastRecentlyUsedOne) {
  KeptMaps maps({.bytes = 2 * kWindowBytes, .dear_unmap = kNeverDear});
  const std::weak_ptr<const MapWindow> first = get(maps, 0);
  const std::weak_ptr<const MapWindow> second = get(maps, 1);
  EXPECT_TRUE(get(maps, 0));
  EXPECT_TRUE(get(maps, 2));
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(second.expired());
  EXPECT_EQ(maps.bytes(), 2 * kWindowBytes);
}

TEST_F(KeptMapsTest, KeepsAWindowMappedWhileItIsHeld) {
  KeptMaps maps({.bytes = kWindowBytes, .dear_unmap = kNeverDear});
  const MapWindowPtr held = get(maps, 0);
  EXPECT_TRUE(get(maps, 1));
  maps.forget(this);
  EXPECT_EQ(static_cast<char>(held->bytes()[0]), '0');
}

TEST_F(KeptMapsTest, HasALimitOfWindows) {
  KeptMaps maps({.bytes = 9 * kWindowBytes, .windows = 2, .dear_unmap = kNeverDear});
  for (const std::uint64_t number : {0U, 1U, 2U, 3U}) EXPECT_TRUE(get(maps, number));
  EXPECT_EQ(maps.bytes(), kWindowBytes + MapWindow::kStep + 12'345);
}

TEST_F(KeptMapsTest, ForgetsAFileAndNoOther) {
  KeptMaps maps({.bytes = 9 * kWindowBytes, .dear_unmap = kNeverDear});
  const int other = 0;
  EXPECT_TRUE(get(maps, 0));
  EXPECT_TRUE(get(maps, 1));
  const std::weak_ptr<const MapWindow> kept = maps.get(&other, 0, fd_, kMappedFileBytes);
  maps.forget(this);
  EXPECT_EQ(maps.bytes(), kWindowBytes);
  EXPECT_FALSE(kept.expired());
}

TEST_F(KeptMapsTest, KeepsWhatItHasWhereUnmappingIsDear) {
  KeptMaps maps({.bytes = 2 * kWindowBytes, .dear_unmap = 1});
  // Before anything was unmapped, nothing is known.
  for (const std::uint64_t number : {0U, 1U, 2U}) EXPECT_TRUE(get(maps, number));
  int refused = 0;
  for (int i = 0; i < 80; ++i) {
    EXPECT_EQ(maps.bytes(), 2 * kWindowBytes);
    refused += get(maps, static_cast<std::uint64_t>(i) % 3) == nullptr ? 1 : 0;
  }
  // A third of the calls are for the one that is not there, and a few of these let it in.
  EXPECT_GE(refused, 20);
  EXPECT_LT(refused, 27);
}

TEST_F(KeptMapsTest, GivesNothingThatCannotBeMapped) {
  KeptMaps maps({.bytes = 2 * kWindowBytes, .dear_unmap = kNeverDear});
  EXPECT_FALSE(maps.get(this, 0, -1, kMappedFileBytes));
  EXPECT_EQ(maps.bytes(), 0);
}

/// Threads that read, and files that are closed, at the same time.
TEST_F(KeptMapsTest, ServesManyThreads) {
  KeptMaps maps({.bytes = 2 * kWindowBytes, .dear_unmap = kNeverDear});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 400; ++i) {
        const auto number = static_cast<std::uint64_t>((i * 7 + thread) % 5);
        const MapWindowPtr window = maps.get(this, number, fd_, kMappedFileBytes);
        if (!window || static_cast<char>(window->bytes()[0]) != static_cast<char>('0' + number)) {
          ++wrong;
        }
        if (i % 50 == 0) maps.forget(this);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(maps.bytes(), 2 * kWindowBytes);
}

/// A range of ranges that begins in one window and ends two windows later, through a file.
TEST_F(KeptMapsTest, AFileGathersAcrossWindows) {
  std::string bytes(2 * MapWindow::kStep + 100'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>((i * 2654435761U) >> 13U);
  const auto path = dir_.write("b.ckpt", bytes);
  const ByteSourcePtr file = open_local_file(path);
  const std::uint64_t before = KeptMaps::process().bytes();
  struct Case {
    std::uint64_t length = 0;
    std::uint64_t stride = 0;
  };
  // The second strides lead from one window far into the next one.
  for (const auto& [length, stride] :
       {Case{7, 26}, Case{64, 197}, Case{5000, 15'005}, Case{70'000, 210'005}, Case{7, 100'000},
        Case{5000, 100'000}}) {
    // The last of these has 10 bytes left in its window.
    for (const std::uint64_t offset : {0U, 4095U, 7'777'777U, (16U << 20U) - 10}) {
      const std::uint64_t count = (bytes.size() - offset - length) / stride + 1;
      const StridedRanges ranges(ByteRange(offset, length), count,
                                 {.source = stride, .memory = length + 1});
      std::string out(count * (length + 1), '.');
      ASSERT_TRUE(file->gather(ranges, reinterpret_cast<std::byte*>(out.data())));
      std::string wanted(out.size(), '.');
      for (std::uint64_t i = 0; i < count; ++i) {
        wanted.replace(i * (length + 1), length, bytes, offset + i * stride, length);
      }
      ASSERT_TRUE(out == wanted) << length << " from " << offset;
    }
  }
  EXPECT_EQ(KeptMaps::process().bytes() > before, KeptMaps::process().keeps());
}

TEST_F(KeptMapsTest, AFileThatSharesItsDescriptorKeepsNone) {
  DescriptorPool without_places(0, 1);
  const ByteSourcePtr file = open_local_file(path_, without_places);
  const std::uint64_t before = KeptMaps::process().bytes();
  const StridedRanges ranges(ByteRange(0, 1), 5, {.source = MapWindow::kStep, .memory = 1});
  std::string out(5, '?');
  ASSERT_TRUE(file->gather(ranges, reinterpret_cast<std::byte*>(out.data())));
  EXPECT_EQ(out, "01234");
  EXPECT_EQ(KeptMaps::process().bytes(), before);
}

TEST_F(KeptMapsTest, AFileThatShrinksIsLetGo) {
  if (!KeptMaps::process().keeps()) GTEST_SKIP() << "the address space is limited";
  const std::uint64_t before = KeptMaps::process().bytes();
  const ByteSourcePtr file = open_local_file(path_);
  const StridedRanges ranges(ByteRange(0, 8), 1000, {.source = 60'000, .memory = 8});
  std::vector<std::byte> out(8000);
  ASSERT_TRUE(file->gather(ranges, out.data()));
  EXPECT_GT(KeptMaps::process().bytes(), before);
  std::filesystem::resize_file(path_, 100'000);
  EXPECT_FALSE(file->gather(ranges, out.data()));
  EXPECT_EQ(KeptMaps::process().bytes(), before);
  test::expect_error(ErrorKind::kChanged, {"a.ckpt"}, [&] { file->check_unchanged(); });
}

/// Another one may get its address.
TEST_F(KeptMapsTest, AFileThatIsClosedIsLetGo) {
  const std::uint64_t before = KeptMaps::process().bytes();
  {
    const ByteSourcePtr file = open_local_file(path_);
    std::vector<std::byte> out(8000);
    const StridedRanges ranges(ByteRange(0, 8), 1000, {.source = 60'000, .memory = 8});
    ASSERT_TRUE(file->gather(ranges, out.data()));
    EXPECT_EQ(KeptMaps::process().bytes() > before, KeptMaps::process().keeps());
  }
  EXPECT_EQ(KeptMaps::process().bytes(), before);
}

TEST_F(KeptMapsTest, AFileThatHasChangedIsLetGo) {
  if (!KeptMaps::process().keeps()) GTEST_SKIP() << "the address space is limited";
  const std::uint64_t before = KeptMaps::process().bytes();
  const ByteSourcePtr file = open_local_file(path_);
  std::vector<std::byte> out(8000);
  const StridedRanges ranges(ByteRange(0, 8), 1000, {.source = 60'000, .memory = 8});
  ASSERT_TRUE(file->gather(ranges, out.data()));
  std::filesystem::resize_file(path_, kMappedFileBytes + 1);
  test::expect_error(ErrorKind::kChanged, {"a.ckpt"}, [&] { file->check_unchanged(); });
  EXPECT_EQ(KeptMaps::process().bytes(), before);
}

}  // namespace
}  // namespace reshardfs
