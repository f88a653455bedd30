// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <zlib.h>

#include "reshardfs/error.h"

#include "format/ckpt/ckpt.h"
#include "support/errors.h"
#include "support/sources.h"
#include "support/wire.h"

namespace reshardfs::ckpt {
namespace {

using test::MemorySource;
using test::record;
using test::small_record;
using test::trailer;

std::uint32_t crc_of(const std::string& text) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

TEST(CkptTrailer, IsCheckedAndLeftOutOfTheIndex) {
  const std::string records = small_record("a") + small_record("b");
  const MemorySource good(records + trailer(crc_of(records)));
  EXPECT_EQ(read_index(good).entries().size(), 2U);
  EXPECT_EQ(read_trailer(good), crc_of(records));
  EXPECT_EQ(check_crc(good), CrcCheck::kGood);
  EXPECT_EQ(check_crc(MemorySource(records + trailer(crc_of(records) ^ 1U))), CrcCheck::kBad);
  EXPECT_EQ(check_crc(MemorySource(records)), CrcCheck::kNoTrailer);
  EXPECT_EQ(read_trailer(MemorySource(records)), std::nullopt);
  EXPECT_EQ(read_trailer(MemorySource("short")), std::nullopt);
}

TEST(CkptTrailer, SeesEveryFlippedBitOfTheData) {
  const std::string records = record("w", {40}, "Int8", std::string(40, 'x'));
  const std::string file = records + trailer(crc_of(records));
  for (std::size_t bit = 0; bit < 8 * 40; ++bit) {
    std::string broken = file;
    char& byte = broken[records.size() - 40 + bit / 8];
    byte = static_cast<char>(byte ^ (1 << bit % 8));
    EXPECT_EQ(check_crc(MemorySource(broken)), CrcCheck::kBad);
  }
}

TEST(CkptTrailer, ReadsLargeFilesInBlocks) {
  const std::string records = record("w", {5'000'000}, "Int8", std::string(5'000'000, 'x'));
  const auto memory = std::make_shared<MemorySource>(records + trailer(crc_of(records)));
  const test::CountingSource counted(memory);
  EXPECT_EQ(check_crc(counted), CrcCheck::kGood);
  EXPECT_LE(counted.reads(), 10U);
  for (std::uint64_t n = 1; n <= counted.reads(); ++n) {
    test::expect_error(ErrorKind::kIo, {"memory.ckpt"},
                       [&] { check_crc(test::FaultSource(memory, n, EIO)); });
  }
}

TEST(CkptTrailer, IsNoTrailerIfItBelongsToContent) {
  const std::string content = std::string(23, 'x') + trailer(7);
  const MemorySource source(record("w", {40}, "Int8", content));
  EXPECT_EQ(read_index(source).find("w")->content_bytes, 40U);
  EXPECT_EQ(read_trailer(source), std::nullopt);
  EXPECT_EQ(check_crc(source), CrcCheck::kNoTrailer);

  const std::string whole = record("w", {40}, "Int8", content);
  EXPECT_EQ(check_crc(MemorySource(whole + trailer(crc_of(whole)))), CrcCheck::kGood);
}

TEST(CkptTrailer, IsRefusedIfItsNumberIsTooLarge) {
  const std::string records = small_record("a");
  const MemorySource source(records + trailer(0x1'0000'0000ULL | crc_of(records)));
  test::expect_error(ErrorKind::kBadInput, {"memory.ckpt", "32 bits"},
                     [&] { read_trailer(source); });
  EXPECT_EQ(check_crc(source), CrcCheck::kBad);
  std::string high = records + trailer(crc_of(records));
  high[records.size() + 7] = '\x01';
  EXPECT_EQ(check_crc(MemorySource(high)), CrcCheck::kBad);
}

TEST(CkptTrailer, DoesNotHideABrokenRecord) {
  const std::string records = small_record("a") + "\x0b";
  const MemorySource source(records + trailer(crc_of(records)));
  test::expect_error(ErrorKind::kBadInput, {"group"}, [&] { read_index(source); });
  EXPECT_EQ(read_trailer(source), std::nullopt);
}

TEST(CkptTrailer, IsNotFoundInAnEncryptedFile) {
  const std::string file = std::string("\xd8\x5e\x3a\x7f", 4) + std::string(50, 'x') + trailer(0);
  EXPECT_EQ(check_crc(MemorySource(file)), CrcCheck::kNoTrailer);
}

#ifdef RESHARDFS_GOLDEN_DIR
TEST(CkptTrailer, AgreesWithTheGoldenFiles) {
  const std::string dir = std::string(RESHARDFS_GOLDEN_DIR) + "/crc_files/src/";
  EXPECT_EQ(check_crc(*open_local_file(dir + "good.ckpt")), CrcCheck::kGood);
  EXPECT_EQ(check_crc(*open_local_file(dir + "bad.ckpt")), CrcCheck::kBad);
  EXPECT_EQ(check_crc(*open_local_file(dir + "none.ckpt")), CrcCheck::kNoTrailer);
}
#endif

}  // namespace
}  // namespace reshardfs::ckpt
