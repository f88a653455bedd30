// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "storage/local/kept_maps.h"
#include "storage/strided_ranges.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::expect_error;

constexpr std::uint64_t kStep = MapWindow::kStep;
constexpr std::uint64_t kOverlap = MapWindow::kOverlap;
constexpr std::uint64_t kGap = 5;  // between pieces in memory

StridedRanges pieces(std::uint64_t offset, std::uint64_t length, std::uint64_t stride,
                     std::uint64_t count) {
  return {ByteRange(offset, length), count, {.source = stride, .memory = length + kGap}};
}

std::uint64_t mapped() {
  return KeptMaps::process().bytes();
}

/// A file of two windows and a half.
class LocalGather : public testing::Test {
 protected:
  void SetUp() override {
    if (!KeptMaps::process().keeps()) GTEST_SKIP() << "the address space is limited";
    path_ = dir_.write("a.ckpt", "");
    std::filesystem::resize_file(path_, 2 * kStep + kStep / 2);
  }

  /// Writes bytes into the pieces of the file, opens it and compares what is gathered.
  void expect_gathered(const StridedRanges& ranges) {
    std::string wanted;
    {
      const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
      for (std::uint64_t i = 0; i < ranges.count(); ++i) {
        std::string piece(ranges.length(), '\0');
        for (char& byte : piece) byte = static_cast<char>((++written_ * 2654435761U) >> 13U);
        ASSERT_EQ(::pwrite(file.get(), piece.data(), piece.size(),
                           static_cast<off_t>(ranges.offset_of(i))),
                  static_cast<ssize_t>(piece.size()));
        wanted += piece + std::string(kGap, '.');
      }
    }
    std::string out(wanted.size(), '.');
    EXPECT_TRUE(gather(*open_local_file(path_), ranges, out));
    EXPECT_TRUE(out == wanted) << ranges.length() << " from " << ranges.offset();
  }
  static bool gather(const ByteSource& source, const StridedRanges& ranges, std::string& out) {
    out.resize(ranges.count() * (ranges.length() + kGap), '.');
    return source.gather(ranges, reinterpret_cast<std::byte*>(out.data()));
  }
  static bool gather(const ByteSource& source, const StridedRanges& ranges) {
    std::string out;
    return gather(source, ranges, out);
  }

  test::TempDir dir_;
  std::filesystem::path path_;
  std::uint64_t written_ = 0;
};

TEST_F(LocalGather, CopiesPiecesFromOneWindowAfterAnother) {
  expect_gathered(pieces(12'345, 100, kStep / 3 + 7, 7));
  expect_gathered(pieces(kStep - 1, kOverlap, kStep, 2));
  expect_gathered(pieces(1, kOverlap, kStep, 2));
  expect_gathered(pieces(0, 16, kStep / 2, 5));
  expect_gathered(pieces(3, 16, kStep + kOverlap, 3));
  expect_gathered(pieces(kStep - 10, 1, 1, 2 * kOverlap));
  expect_gathered(pieces(2 * kStep - 3, 10, 0, 1));
  expect_gathered(pieces(5, kOverlap + 1, kStep, 2));
  EXPECT_EQ(mapped(), 0U);
}

TEST_F(LocalGather, KeepsMapsForShortPiecesUntilTheFileIsClosed) {
  ByteSourcePtr source = open_local_file(path_);
  EXPECT_TRUE(gather(*source, pieces(0, kOverlap + 1, kStep, 2)));
  EXPECT_EQ(mapped(), 0U);
  EXPECT_TRUE(gather(*source, pieces(0, kOverlap, kStep, 2)));
  EXPECT_EQ(mapped(), 2 * (kStep + kOverlap));
  source->check_unchanged();
  EXPECT_EQ(mapped(), 2 * (kStep + kOverlap));
  source.reset();
  EXPECT_EQ(mapped(), 0U);
}

/// A map would keep the file open that gives way to others.
TEST_F(LocalGather, KeepsNoMapsOfAFileWithoutADescriptorOfItsOwn) {
  DescriptorPool without_places(0, 1);
  const ByteSourcePtr source = open_local_file(path_, without_places);
  EXPECT_TRUE(gather(*source, pieces(0, 10, kStep, 2)));
  EXPECT_EQ(mapped(), 0U);
}

TEST_F(LocalGather, GivesUpMapsOfAFileThatHasBecomeShorter) {
  const ByteSourcePtr source = open_local_file(path_);
  EXPECT_TRUE(gather(*source, pieces(0, 10, kStep, 2)));
  std::filesystem::resize_file(path_, kStep / 2);
  EXPECT_FALSE(gather(*source, pieces(0, 10, kStep, 2)));
  EXPECT_EQ(mapped(), 0U);
}

TEST_F(LocalGather, GivesUpMapsOfAFileThatHasChanged) {
  const ByteSourcePtr source = open_local_file(path_);
  EXPECT_TRUE(gather(*source, pieces(0, 10, kStep, 2)));
  std::filesystem::resize_file(path_, kStep / 2);
  expect_error(ErrorKind::kChanged, {"a.ckpt"}, [&] { source->check_unchanged(); });
  EXPECT_EQ(mapped(), 0U);
}

TEST_F(LocalGather, GivesUpOnAFileThatCannotBeMapped) {
  const ByteSourcePtr source = open_local_file(path_);
  const Descriptor directory(::open(dir_.path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_GE(::dup3(directory.get(), source->descriptor()->get(), O_CLOEXEC), 0);
  EXPECT_FALSE(gather(*source, pieces(0, 10, kStep, 2)));
}

}  // namespace
}  // namespace reshardfs
