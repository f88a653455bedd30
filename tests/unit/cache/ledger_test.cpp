// SPDX-License-Identifier: Apache-2.0
#include "cache/ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <stop_token>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/file_lock.h"
#include "base/posix/page_size.h"
#include "cache/cache_directory.h"
#include "cache/record.h"
#include "cache/sweep.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::TempDir;

Descriptor open_ledger(const std::filesystem::path& path) {
  return Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

TEST(Ledger, KnowsNothingAtFirst) {
  const TempDir dir;
  EXPECT_FALSE(Ledger(open_ledger(dir.path() / "held")).read().known);
}

TEST(Ledger, IsSharedByAllWhoOpenIt) {
  const TempDir dir;
  Ledger one(open_ledger(dir.path() / "held"));
  const Ledger other(open_ledger(dir.path() / "held"));
  ASSERT_EQ(one.write({true, 1, 2, 3}), 0);
  const Balance balance = other.read();
  EXPECT_TRUE(balance.known);
  EXPECT_EQ(balance.held, 1U);
  EXPECT_EQ(balance.added, 2U);
  EXPECT_EQ(balance.recount, 3U);
}

TEST(Ledger, DoesNotTrustWhatAnotherRunOfTheMachineWrote) {
  const TempDir dir;
  const auto path = dir.path() / "held";
  ASSERT_EQ(Ledger(open_ledger(path)).write({true, 1, 2, 3}), 0);
  const Descriptor file = open_ledger(path);
  // The second word, which stands for the run, with the right sum.
  std::vector<std::uint64_t> words(7);
  ASSERT_EQ(::pread(file.get(), words.data(), 56, 0), 56);
  words[1] ^= 1U;
  words[6] = checksum(std::as_bytes(std::span(words)).first(48));
  ASSERT_EQ(::pwrite(file.get(), words.data(), 56, 0), 56);
  EXPECT_FALSE(Ledger(open_ledger(path)).read().known);
}

TEST(Ledger, SeesThatItWasRemoved) {
  const TempDir dir;
  const Ledger ledger(open_ledger(dir.path() / "held"));
  EXPECT_FALSE(ledger.is_removed());
  std::filesystem::remove(dir.path() / "held");
  EXPECT_TRUE(ledger.is_removed());
}

TEST(Ledger, CountsWholePages) {
  const std::uint64_t page = page_bytes();
  EXPECT_EQ(occupied(0), 0U);
  EXPECT_EQ(occupied(1), page);
  EXPECT_EQ(occupied(page), page);
  EXPECT_EQ(occupied(page + 1), 2 * page);
}

TEST(FileLock, ExcludesWhoeverElseOpensTheFile) {
  const TempDir dir;
  const Descriptor one = open_ledger(dir.path() / "held");
  const Descriptor other = open_ledger(dir.path() / "held");
  const std::stop_token never;
  {
    const auto lock = FileLock::take(one.get(), std::chrono::seconds(1), never);
    ASSERT_TRUE(lock);
    EXPECT_FALSE(FileLock::take(other.get(), std::chrono::milliseconds(3), never));
  }
  EXPECT_TRUE(FileLock::take(other.get(), std::chrono::milliseconds(0), never));
}

TEST(FileLock, IsNotWaitedForWhenAllEnds) {
  const TempDir dir;
  const Descriptor one = open_ledger(dir.path() / "held");
  const Descriptor other = open_ledger(dir.path() / "held");
  std::stop_source stop;
  stop.request_stop();
  const auto lock = FileLock::take(one.get(), std::chrono::hours(1), stop.get_token());
  ASSERT_TRUE(lock);
  EXPECT_FALSE(FileLock::take(other.get(), std::chrono::hours(1), stop.get_token()));
}

/// Of a record that has its name, but is not counted.
void add_record(CacheDirectory& directory, std::uint64_t number, std::uint64_t size) {
  const Filling filling = directory.make_filling(size);
  ASSERT_TRUE(filling.file);
  ASSERT_EQ(directory.give_name(filling, record_path({ObjectKey("a"), RecordKind::kBlock, number})),
            0);
}

TEST(Sweep, CountsWhatIsThere) {
  const TempDir dir;
  CacheDirectory directory(dir.path());
  const std::stop_token never;
  ASSERT_EQ(sweep(directory, 1 << 30, never).error, 0);
  const std::uint64_t empty = directory.ledger().read().held;
  const std::uint64_t page = page_bytes();
  for (std::uint64_t i = 0; i < 10; ++i) add_record(directory, i, page / 4 * i);
  const Filling writing = directory.make_filling(page / 4 * 5);
  ASSERT_EQ(sweep(directory, 1 << 30, never).error, 0);
  const Balance balance = directory.ledger().read();
  EXPECT_TRUE(balance.known);
  // One quarter to four are a page, five to eight are two, nine are three.
  EXPECT_EQ(balance.held, empty + (4 + 8 + 3 + 2) * page);
}

TEST(Sweep, EvictsDownToItsTarget) {
  const TempDir dir;
  CacheDirectory directory(dir.path());
  const std::stop_token never;
  for (std::uint64_t i = 0; i < 300; ++i) add_record(directory, i, 1 << 20);
  ASSERT_EQ(sweep(directory, 1 << 30, never).evicted_records, 0U);
  const std::uint64_t all = directory.ledger().read().held;
  const SweepResult result = sweep(directory, all - (100 << 20) + 1, never);
  EXPECT_EQ(result.error, 0);
  EXPECT_EQ(result.evicted_records, 100U);
  EXPECT_EQ(directory.ledger().read().held, all - (100 << 20));
}

TEST(Sweep, EndsWhenAllEnds) {
  const TempDir dir;
  CacheDirectory directory(dir.path());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(sweep(directory, 0, stop.get_token()).error, EINTR);
  EXPECT_FALSE(directory.ledger().read().known);
}

TEST(Sweep, RefusesToCountWithoutTheLock) {
  const TempDir dir;
  CacheDirectory directory(dir.path());
  std::stop_source stop;
  const Descriptor other = open_ledger(directory.path() / CacheDirectory::kLedger);
  const auto lock = FileLock::take(other.get(), std::chrono::seconds(1), stop.get_token());
  ASSERT_TRUE(lock);
  stop.request_stop();
  EXPECT_EQ(sweep(directory, 0, stop.get_token()).error, ETIMEDOUT);
}

}  // namespace
}  // namespace reshardfs
