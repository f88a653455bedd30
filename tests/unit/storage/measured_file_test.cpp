// SPDX-License-Identifier: Apache-2.0
#include "storage/local/measured_file.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "blocking_source.h"
#include "storage/remote/cached_fetcher.h"
#include "storage/stuck_read.h"
#include "support/errors.h"
#include "support/process_cache.h"
#include "support/temp_dir.h"

namespace reshardfs::measured_file_tests {
namespace {

using test::BlockingSource;
using test::expect_error;
using test::is_of_object;
using test::TempDir;
using test::until;

constexpr std::uint64_t kBlock = BlockPool::kBlockBytes;
constexpr std::uint64_t kSize = 12 * kBlock + 5;

class MeasuredFileTest : public testing::Test {
 protected:
  ~MeasuredFileTest() override {
    bytes_->let_go();
    until([this] { return readers_.figures().in_flight == 0; });
    source_cache() = nullptr;
  }

  MeasuredFile::Way way(bool always_far = false) {
    return {.always_far = always_far,
            .readers = [this]() -> LocalReaders& { return readers_; },
            .pool = &pool_};
  }
  void be_slow() {
    for (int i = 0; i < 4; ++i) speed_->note(1, std::chrono::milliseconds(20));
  }
  void be_quick() {
    for (int i = 0; i < 1000; ++i) speed_->note(1, std::chrono::nanoseconds(1));
  }
  static void read(const ByteSource& source, std::uint64_t offset, std::size_t count) {
    std::vector<std::byte> out(count);
    source.read_at(offset, out);
    EXPECT_TRUE(is_of_object(out, offset));
  }

  std::shared_ptr<BlockingSource> bytes_ = std::make_shared<BlockingSource>(kSize);
  std::shared_ptr<FileSystemSpeed> speed_ = std::make_shared<FileSystemSpeed>();
  LocalReaders readers_{{.patience = std::chrono::hours(1)}};
  BlockPool pool_{64 * kBlock};
  MeasuredFile file_{bytes_, "version 1", speed_, way()};
};

const StridedRanges kPieces(ByteRange(0, 4), 3, {.source = 8, .memory = 4});

TEST_F(MeasuredFileTest, IsReadAsItIsWhileItsFileSystemIsQuick) {
  EXPECT_FALSE(file_.is_far());
  read(file_, 7, 100);
  read(file_, 7, 100);
  EXPECT_EQ(bytes_->begun(), (std::vector<std::uint64_t>{7, 7}));
  EXPECT_TRUE(file_.gather(kPieces, nullptr));
  const ByteRange range(0, kBlock);
  file_.foresee(std::span(&range, 1), Foresight::kNow);
  EXPECT_EQ(readers_.figures().reads, 0U);
}

TEST_F(MeasuredFileTest, IsFarWhileItsFileSystemIsSlow) {
  be_slow();
  EXPECT_TRUE(file_.is_far());
  EXPECT_FALSE(file_.is_remote());
  EXPECT_FALSE(file_.gather(kPieces, nullptr));
  EXPECT_EQ(file_.descriptor(), nullptr);
  read(file_, 7, 100);
  const std::uint64_t reads = readers_.figures().reads;
  EXPECT_GT(reads, 0U);
  read(file_, 7, 100);
  EXPECT_EQ(readers_.figures().reads, reads);
  read(file_, kSize - 5, 5);
  be_quick();
  EXPECT_FALSE(file_.is_far());
  EXPECT_TRUE(file_.gather(kPieces, nullptr));
}

TEST_F(MeasuredFileTest, ReadsManyRangesAtOnce) {
  be_slow();
  bytes_->block();
  const ByteRange range(kBlock, 8 * kBlock);
  file_.foresee(std::span(&range, 1), Foresight::kAhead);
  bytes_->await(8 * kBlock / LocalFetcher::kUnitBytes);
  EXPECT_EQ(readers_.figures().in_flight, 8 * kBlock / LocalFetcher::kUnitBytes);
  bytes_->let_go();
  std::vector<std::byte> out(kBlock);
  for (std::uint64_t at = 1; at <= 8; ++at) {
    read_part(file_, {at * kBlock, out, /*foreseen=*/true});  // nothing more is fetched ahead
    EXPECT_TRUE(is_of_object(out, at * kBlock));
  }
  EXPECT_EQ(bytes_->begun().size(), 8 * kBlock / LocalFetcher::kUnitBytes);
}

TEST_F(MeasuredFileTest, FetchesAheadOfWhoReadsOn) {
  be_slow();
  for (std::uint64_t at = 0; at < 8; ++at) read(file_, at * (64 << 10), 64 << 10);
  until([this] { return bytes_->begun().back() >= kBlock; });
}

TEST_F(MeasuredFileTest, IsNotForeseenWhileItHangs) {
  LocalReaders impatient({.patience = std::chrono::milliseconds(0)});
  const MeasuredFile file(bytes_, "", speed_,
                          {.always_far = true,
                           .readers = [&]() -> LocalReaders& { return impatient; },
                           .pool = &pool_});
  bytes_->block();
  auto reader = std::async(std::launch::async, [&] { read(file, 0, 10); });
  bytes_->await(1);
  const ByteRange range(4 * kBlock, kBlock);
  file.foresee(std::span(&range, 1), Foresight::kNow);
  EXPECT_EQ(impatient.figures().reads, 1U);
  // Another file is read by another thread.
  const auto other_bytes = std::make_shared<BlockingSource>(kSize);
  const MeasuredFile other(other_bytes, "", speed_,
                           {.always_far = true,
                            .readers = [&]() -> LocalReaders& { return impatient; },
                            .pool = &pool_});
  read(other, 0, 10);
  bytes_->let_go();
  reader.get();
  until([&] { return impatient.figures().in_flight == 0; });
}

TEST_F(MeasuredFileTest, ReadsAreTimedWhereTheyMayBeSlow) {
  MeasuredFile::Way untimed = way();
  untimed.is_timed = false;
  read(MeasuredFile(bytes_, "", speed_, untimed), 0, 10);
  EXPECT_EQ(speed_->usual().count(), 0);
  for (int i = 0; i < 100; ++i) read(file_, 0, 1000);
  EXPECT_GT(speed_->usual().count(), 0);
  EXPECT_LT(speed_->usual(), std::chrono::milliseconds(200)) << "as if each had taken for ever";
}

/// A read of a thread that need not wait. @return whether it has left it.
bool leaves(LeftReads& left, const ByteSource& file, std::uint64_t offset) {
  const LeftReads::Scope scope(left);
  std::vector<std::byte> out(10);
  try {
    file.read_at(offset, out);
  } catch (const StuckRead&) {
    return true;
  }
  EXPECT_TRUE(is_of_object(out, offset));
  return false;
}

TEST_F(MeasuredFileTest, IsReadByOthersWhileItsFileSystemHangs) {
  for (const bool is_slow : {false, true}) {
    LocalReaders impatient({.patience = std::chrono::milliseconds(0)});
    MeasuredFile::Way own = way();
    own.readers = [&]() -> LocalReaders& { return impatient; };
    const MeasuredFile file(bytes_, "", speed_, own);
    LeftReads left;
    EXPECT_FALSE(leaves(left, file, 0));
    EXPECT_EQ(impatient.figures().reads, 0U);
    if (is_slow) be_slow();
    speed_->add_stuck(1);
    EXPECT_EQ(file.is_far(), is_slow);
    bytes_->block();
    const std::size_t before_it = bytes_->begun().size();
    EXPECT_TRUE(leaves(left, file, 100));
    bytes_->await(before_it + 1);
    until([&] { return impatient.figures().stuck == 1; });
    bytes_->let_go();
    until([&] { return impatient.figures().in_flight == 0; });
    const std::size_t begun = bytes_->begun().size();
    EXPECT_FALSE(leaves(left, file, 100));
    EXPECT_EQ(bytes_->begun().size(), begun) << "it was kept";
    own.readers = way().readers;
    const MeasuredFile patient(bytes_, "", speed_, own);
    const std::uint64_t before = readers_.figures().reads;
    {
      const LeftReads::Scope scope(left);
      EXPECT_EQ(patient.gather(kPieces, nullptr), false) << "a page may hang as well";
      patient.check_unchanged();
      EXPECT_EQ(readers_.figures().reads, before + 1);
    }
    patient.check_unchanged();
    EXPECT_EQ(readers_.figures().reads, before + 1) << "who waits does so itself";
    for (std::uint64_t at = 1; at < 9; ++at) EXPECT_FALSE(leaves(left, patient, at * kBlock));
    const std::uint64_t after = readers_.figures().reads;
    const LeftReads::Scope scope(left);
    patient.check_unchanged();
    EXPECT_EQ(readers_.figures().reads, after) << "it answers";
    speed_->add_stuck(-1);
  }
}

/// One place of it hangs.
TEST_F(MeasuredFileTest, IsForeseenAndExaminedWhereItAnswersInPart) {
  LocalReaders impatient(
      {.probe_interval = std::chrono::milliseconds(0), .patience = std::chrono::milliseconds(0)});
  MeasuredFile::Way own = way(/*always_far=*/true);
  own.readers = [&]() -> LocalReaders& { return impatient; };
  const MeasuredFile file(bytes_, "", speed_, own);
  bytes_->block_at(0);
  auto stuck = std::async(std::launch::async, [&] { read(file, 0, 10); });
  bytes_->await(1);
  until([&] { return impatient.figures().stuck == 1; });
  for (int i = 0; i < 100; ++i) speed_->note(1, std::chrono::hours(1));  // others have time
  read(file, 4 * kBlock, 10);
  until([&] { return impatient.figures().in_flight == 1; });
  LeftReads left;
  {
    const LeftReads::Scope scope(left);
    file.check_unchanged();
  }
  EXPECT_EQ(impatient.figures().reads, 2U) << "this thread has examined it";
  file.foresee(std::array{ByteRange(8 * kBlock, 10)}, Foresight::kNow);
  bytes_->await(3);
  bytes_->let_go();
  stuck.get();
  until([&] { return impatient.figures().in_flight == 0; });
}

TEST_F(MeasuredFileTest, RefusesARangeThatLeavesItAlsoWhileItsFileSystemHangs) {
  LeftReads left;
  const LeftReads::Scope scope(left);
  speed_->add_stuck(1);
  expect_error(ErrorKind::kBadInput, {"blocking.ckpt"}, [&] { read(file_, kSize - 5, 10); });
  speed_->add_stuck(-1);
  EXPECT_EQ(readers_.figures().reads, 0U);
}

TEST_F(MeasuredFileTest, ManyPartsAreReadOneByOneWhileItsFileSystemIsQuick) {
  std::vector<std::byte> first(10);
  std::vector<std::byte> second(20);
  const std::vector<ReadRequest> parts{{5, first}, {kBlock, second}};
  file_.read_many(parts);
  EXPECT_TRUE(is_of_object(first, 5));
  EXPECT_TRUE(is_of_object(second, kBlock));
}

TEST_F(MeasuredFileTest, ADirectReadThatGetsStuckIsNoticed) {
  MeasuredFile::Way own = way();
  own.is_pooled = false;
  const MeasuredFile file(bytes_, "", speed_, own);
  bytes_->block();
  auto stuck = std::async(std::launch::async, [&] { read(file, 0, 10); });
  bytes_->await(1);
  speed_->look(std::chrono::steady_clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(speed_->is_stuck());
  const MeasuredFile other(std::make_shared<BlockingSource>(kSize), "", speed_, own);
  LeftReads left;
  EXPECT_FALSE(leaves(left, other, 0));
  EXPECT_EQ(readers_.figures().reads, 1U);
  bytes_->let_go();
  stuck.get();
}

TEST_F(MeasuredFileTest, TellsThatItHasChanged) {
  be_slow();
  read(file_, 0, 10);
  bytes_->change();
  expect_error(ErrorKind::kChanged, {"blocking.ckpt"}, [&] { file_.check_unchanged(); });
  expect_error(ErrorKind::kChanged, {"blocking.ckpt"}, [&] { read(file_, 4 * kBlock, 10); });
}

TEST_F(MeasuredFileTest, IsKeptInTheCache) {
  const TempDir directory;
  source_cache() = BlockCache::open({directory.path() / "cache", 1 << 30});
  {
    const MeasuredFile file(bytes_, "version 1", speed_, way(true));
    read(file, 0, kSize);
    until([] { return source_cache()->stats().bytes_written >= kSize; });
  }
  const std::size_t before = bytes_->begun().size();
  const MeasuredFile again(bytes_, "version 1", speed_, way(true));
  read(again, 0, kSize);
  EXPECT_EQ(bytes_->begun().size(), before);
  const MeasuredFile other(bytes_, "version 2", speed_, way(true));
  read(other, 0, kSize);
  EXPECT_GT(bytes_->begun().size(), before);
  const std::size_t after = bytes_->begun().size();
  const MeasuredFile uncertain(bytes_, "", speed_, way(true));
  read(uncertain, 0, kSize);
  EXPECT_GT(bytes_->begun().size(), after);
}

TEST_F(MeasuredFileTest, WhatHasChangedMeanwhileIsNotKept) {
  const TempDir directory;
  source_cache() = BlockCache::open({directory.path() / "cache", 1 << 30});
  const MeasuredFile file(bytes_, "version 1", speed_, way(true));
  bytes_->change();
  expect_error(ErrorKind::kChanged, {"blocking.ckpt"}, [&] { read(file, 0, kSize); });
  EXPECT_EQ(source_cache()->stats().bytes_written, 0U);
}

TEST(Measured, FilesOfLocalFileSystemsAreReadAsTheyAre) {
  const TempDir directory;
  const ByteSourcePtr file = open_file(directory.write("a", "bytes"));
  const auto speed = FileSystemSpeed::of(file->stamp().device);
  for (int i = 0; i < 10; ++i) speed->note(1, std::chrono::milliseconds(20));
  EXPECT_TRUE(speed->is_slow());
  EXPECT_FALSE(file->is_far());
  EXPECT_NE(file->descriptor(), nullptr);
}

TEST(Measured, AnyFileCanBeReadAsASlowOne) {
  const TempDir directory;
  const auto path = directory.write("a", "bytes");
  slow_files() = SlowFiles::kAll;
  const ByteSourcePtr file = open_file(path);
  slow_files() = SlowFiles::kMeasured;
  EXPECT_TRUE(file->is_far());
  std::string got(5, ' ');
  file->read_at(0, std::as_writable_bytes(std::span(got)));
  file->check_unchanged();
  EXPECT_EQ(got, "bytes");
}

TEST(Measured, AFileThatIsReadAsASlowOneIsKeptInTheCache) {
  const test::ProcessCache cache;
  slow_files() = SlowFiles::kAll;
  const ByteSourcePtr file = open_file("/bin/sh");  // it was not written just now
  slow_files() = SlowFiles::kMeasured;
  std::vector<std::byte> out(std::min(kBlock, file->size()));
  file->read_at(0, out);
  source_cache()->flush();
  EXPECT_GT(source_cache()->stats().bytes_written, 0U);
}

TEST(Measured, TheWayOfAFileIsChosenByTheCacheToo) {
  struct Case {
    SlowFiles slow;
    std::optional<std::string> identity;
    bool is_pooled;
    bool always_far;
  };
  for (const auto& [slow, identity, is_pooled, always_far] :
       {Case{SlowFiles::kMeasured, std::nullopt, true, false},
        Case{SlowFiles::kMeasured, "", true, false}, Case{SlowFiles::kMeasured, "v", true, true},
        Case{SlowFiles::kNone, std::nullopt, false, false}, Case{SlowFiles::kNone, "", true, false},
        Case{SlowFiles::kNone, "v", true, true}, Case{SlowFiles::kAll, std::nullopt, true, true}}) {
    const auto way = MeasuredFile::Way::of(slow, identity);
    EXPECT_TRUE(way.is_timed);
    EXPECT_EQ(way.is_pooled, is_pooled);
    EXPECT_EQ(way.always_far, always_far);
  }
}

TEST(Measured, FilesAreFarIfAllAreToBe) {
  const TempDir directory;
  const auto path = directory.write("a.ckpt", "x");
  EXPECT_FALSE(measured(open_local_file(path))->is_far());
  slow_files() = SlowFiles::kAll;
  EXPECT_TRUE(measured(open_local_file(path))->is_far());
  slow_files() = SlowFiles::kMeasured;
}

}  // namespace
}  // namespace reshardfs::measured_file_tests
