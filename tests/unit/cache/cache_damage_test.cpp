// SPDX-License-Identifier: Apache-2.0
/// Whatever happens to the files of a cache, it gives out the right bytes or none.
#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "cache/block_cache.h"
#include "cache_files.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::CacheInDirectory;
using test::flip_bit;
using test::kBlock;

TEST(CacheDamage, ABitFlippedInEachOfAThousandBlocks) {
  constexpr std::uint64_t kBlocks = 1000;
  constexpr std::size_t kSize = 100'000;
  constexpr std::uint64_t kHeaderBits = 4096 * 8;
  const CacheInDirectory files(512 << 20);
  std::mt19937_64 random(20);
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    const fs::path file = files.put_file("a", block, kSize);
    // Half of them in the header: every field, its sum, and what is between them.
    const std::uint64_t bit =
        block % 2 == 0 ? random() % kHeaderBits : kHeaderBits + random() % (kSize * 8);
    flip_bit(file, bit);
    ASSERT_FALSE(files.has("a", block, kSize)) << "bit " << bit;
    ASSERT_FALSE(fs::exists(file)) << "bit " << bit;
    ASSERT_EQ(files.cache->stats().bad_records, block + 1);
    files.put("a", block, kSize);
    ASSERT_TRUE(files.has("a", block, kSize));
    fs::remove(file);
  }
}

TEST(CacheDamage, EveryByteOfTheHeader) {
  const CacheInDirectory files;
  for (std::uint64_t byte = 0; byte < 4096; ++byte) {
    // What is said of the object lies in front, the sum of it at the end.
    if (byte > 650 && byte < 4080) continue;
    const fs::path file = files.put_file("a", 1, 10);
    flip_bit(file, byte * 8 + byte % 8);
    ASSERT_FALSE(files.has("a", 1, 10)) << byte;
    ASSERT_FALSE(fs::exists(file));
  }
}

TEST(CacheDamage, PartsOfDamagedBlocks) {
  constexpr std::size_t kPiece = 16 << 10;
  const CacheInDirectory files;
  const ObjectKey key("a");
  for (std::size_t piece = 0; piece < 64; piece += 3) {
    const fs::path file = files.put_file("a", 1);
    flip_bit(file, (4096 + piece * kPiece + 123) * 8);
    // What does not touch the damage is right, and given out.
    test::Contents out(100);
    const std::size_t other = (piece + 1) % 64;
    EXPECT_TRUE(files.cache->read_part(key, 1, kBlock, other * kPiece, out));
    EXPECT_FALSE(files.cache->read_part(key, 1, kBlock, piece * kPiece + kPiece - 100, out));
    EXPECT_FALSE(fs::exists(file));
  }
}

TEST(CacheDamage, BlocksThatAreDamagedBetweenTheReadingOfTheirParts) {
  const CacheInDirectory files;
  const ObjectKey key("a");
  const test::Contents right = test::block_contents("a", 1, kBlock);
  test::Contents out(1000);
  for (int how = 0; how < 4; ++how) {
    const fs::path file = files.put_file("a", 1);
    ASSERT_TRUE(files.cache->read_part(key, 1, kBlock, 0, out));
    if (how == 0) flip_bit(file, (4096 + 300'000) * 8);
    if (how == 1) fs::resize_file(file, 250'000);
    if (how == 2) fs::remove(file);
    if (how == 3) {
      // Its length fits, but not what it has.
      fs::resize_file(file, 0);
      fs::resize_file(file, 4096 + kBlock);
    }
    EXPECT_FALSE(files.cache->read_part(key, 1, kBlock, 299'500, out)) << how;
    EXPECT_FALSE(fs::exists(file)) << how;
    EXPECT_FALSE(files.cache->read_part(key, 1, kBlock, 0, out)) << how;
  }
  EXPECT_EQ(files.cache->stats().bad_records, 3U);
  files.put("a", 1);
  EXPECT_TRUE(files.cache->read_part(key, 1, kBlock, 299'500, out));
  EXPECT_TRUE(std::equal(out.begin(), out.end(), right.begin() + 299'500));
}

TEST(CacheDamage, FilesThatAreCutOrLonger) {
  const CacheInDirectory files;
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{200}, std::uint64_t{4095},
        std::uint64_t{4096}, std::uint64_t{4097}, std::uint64_t{kBlock}, kBlock + 4095,
        kBlock + 4097, 2 * std::uint64_t{kBlock}}) {
    const fs::path file = files.put_file("a", 1);
    fs::resize_file(file, size);
    EXPECT_FALSE(files.has("a", 1)) << size;
    EXPECT_FALSE(fs::exists(file)) << size;
  }
}

TEST(CacheDamage, PagesOfZerosAfterACrash) {
  const CacheInDirectory files;
  for (std::uint64_t page = 0; page < 257; page += 8) {
    const fs::path file = files.put_file("a", 1);
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(page * 4096));
    out << std::string(4096, '\0') << std::flush;
    EXPECT_FALSE(files.has("a", 1)) << page;
    EXPECT_FALSE(fs::exists(file));
  }
}

TEST(CacheDamage, ABlockUnderTheNameOfAnother) {
  const CacheInDirectory files;
  const fs::path a1 = files.put_file("a", 1);
  const fs::path a2 = files.put_file("a", 2);
  const fs::path b1 = files.put_file("b", 1);
  fs::copy_file(a1, a2, fs::copy_options::overwrite_existing);
  fs::copy_file(a1, b1, fs::copy_options::overwrite_existing);
  EXPECT_FALSE(files.has("a", 2));
  EXPECT_FALSE(files.has("b", 1));
  EXPECT_FALSE(fs::exists(a2));
  EXPECT_FALSE(fs::exists(b1));
  EXPECT_TRUE(files.has("a", 1));
}

TEST(CacheDamage, AMixOfTwoBlocks) {
  const CacheInDirectory files;
  const fs::path a1 = files.put_file("a", 1);
  const fs::path a2 = files.put_file("a", 2);
  {
    std::ifstream from(a2, std::ios::binary);
    std::fstream to(a1, std::ios::in | std::ios::out | std::ios::binary);
    std::string bytes(512 << 10, '\0');
    from.seekg(4096 + (512 << 10)).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    to.seekp(4096 + (512 << 10)).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  EXPECT_FALSE(files.has("a", 1));
  EXPECT_TRUE(files.has("a", 2));
}

TEST(CacheDamage, PiecesOfABlockInAnotherOrder) {
  const CacheInDirectory files;
  const fs::path file = files.put_file("a", 1);
  {
    std::fstream both(file, std::ios::in | std::ios::out | std::ios::binary);
    std::string one(16 << 10, '\0');
    std::string other = one;
    const auto size = static_cast<std::streamsize>(one.size());
    both.seekg(4096).read(one.data(), size).read(other.data(), size);
    both.seekp(4096).write(other.data(), size).write(one.data(), size);
  }
  EXPECT_FALSE(files.has("a", 1));
}

TEST(CacheDamage, WhatIsNoFile) {
  const CacheInDirectory files;
  const fs::path file = files.put_file("a", 1);
  const fs::path good = files.dir.path() / "good";
  fs::copy_file(file, good);

  fs::remove(file);
  fs::create_symlink(good, file);
  EXPECT_FALSE(files.has("a", 1)) << "a link is followed";
  EXPECT_FALSE(fs::is_symlink(file));
  EXPECT_TRUE(fs::exists(good));

  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(files.has("a", 1));
  EXPECT_FALSE(fs::exists(file));

  fs::create_directory(file);
  EXPECT_FALSE(files.has("a", 1));
  files.put("a", 1);
  fs::remove(file);

  files.put("a", 1);
  EXPECT_TRUE(files.has("a", 1));
}

TEST(CacheDamage, ADamagedCountIsMadeAnew) {
  CacheInDirectory files;
  files.put("a", 1);
  files.put("a", 2);
  const auto held = files.cache->stats().bytes_held;
  for (const std::uint64_t bit :
       {std::uint64_t{0}, std::uint64_t{64}, std::uint64_t{130}, std::uint64_t{64 * 6 + 1}}) {
    flip_bit(files.own() / "held", bit);
    EXPECT_EQ(files.cache->stats().bytes_held, 0U);
    files.put("b", bit);
    EXPECT_GE(files.cache->stats().bytes_held, held + kBlock);
    EXPECT_EQ(files.cache->stats().not_kept, 0U);
    fs::remove(files.put_file("c", bit));
  }
  fs::resize_file(files.own() / "held", 3);
  files.put("d", 0);
  EXPECT_TRUE(files.has("d", 0));
  EXPECT_GE(files.cache->stats().bytes_held, files.bytes_on_disk());
}

TEST(CacheDamage, ACacheThatIsRemovedWhileItIsUsed) {
  const CacheInDirectory files;
  files.put("a", 1);
  for (const fs::path& removed : {files.own(), files.own().parent_path()}) {
    fs::remove_all(removed);
    EXPECT_FALSE(files.has("a", 1));
    files.put("a", 1);
    EXPECT_TRUE(files.has("a", 1));
    EXPECT_EQ(files.records().size(), 1U);
  }
  for (const auto& entry : fs::directory_iterator(files.own())) fs::remove_all(entry.path());
  files.put("a", 1);
  EXPECT_TRUE(files.has("a", 1));
  EXPECT_EQ(files.cache->stats().failures, 0U);
}

}  // namespace
}  // namespace reshardfs
