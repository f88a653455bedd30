// SPDX-License-Identifier: Apache-2.0
/// The pool, the readers and the watches of sources.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "failing_allocations.h"
#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "storage/local/file_watch.h"
#include "storage/local/local_fetcher.h"
#include "storage/local/local_readers.h"
#include "storage/pool/block_pool.h"
#include "storage/pool/stream_windows.h"
#include "support/object_fetcher.h"
#include "support/temp_dir.h"

namespace reshardfs::no_memory {
namespace {

constexpr std::uint64_t kBlock = BlockPool::kBlockBytes;
constexpr std::uint64_t kBlocks = 24;

/// Brings what is asked for at once.
class ReadyFetcher final : public ObjectFetcher {
 public:
  ReadyFetcher() : ObjectFetcher(kBlocks * kBlock) {}
  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight /*when*/,
             Done done) const override {
    std::uint64_t offset = range.offset();
    for (const std::span<std::byte>& piece : out) {
      fill_sectors(offset, piece);
      offset += piece.size();
    }
    done(nullptr);
  }
};

class Pool : public testing::Test {
 protected:
  Pool() { pool_.set_capacity(8 * kBlock); }

  void read(std::uint64_t block, std::uint64_t count) {
    pool_.read(source_, fetcher_, block * kBlock,
               std::span(buffer_).first(static_cast<std::size_t>(count * kBlock)));
  }
  bool is_right(std::uint64_t block, std::uint64_t count) const {
    for (std::uint64_t at = 0; at < count * kBlock; at += BlockPool::kSectorBytes) {
      if (buffer_[static_cast<std::size_t>(at)] != sector_byte(block * kBlock + at)) return false;
    }
    return true;
  }
  /// Whatever it has kept makes room: each block goes through it.
  void check() {
    for (std::uint64_t block = 0; block < kBlocks; block += 4) {
      read(block, 4);
      EXPECT_TRUE(is_right(block, 4));
    }
    EXPECT_LE(pool_.figures().blocks, 8U);
    pool_.remove_source(source_);
    EXPECT_EQ(pool_.figures().blocks, 0U);
    source_ = pool_.add_source();
  }

  BlockPool pool_{8 * kBlock};
  const ReadyFetcher fetcher_;
  std::uint64_t source_ = pool_.add_source();
  std::vector<std::byte> buffer_ = std::vector<std::byte>(6 * kBlock);
};

TEST_F(Pool, ReadsBlocks) {
  const std::size_t runs = with_each_failing(
      Threads::kThisOne, [&] { read(1, 4); }, [&] { check(); });
  EXPECT_GT(runs, 20U);
}

TEST_F(Pool, ReadsMoreThanItHolds) {
  with_each_failing(
      Threads::kThisOne,
      [&] {
        read(0, 6);
        read(10, 6);
      },
      [&] { check(); });
}

TEST_F(Pool, FetchesAhead) {
  const std::vector<ByteRange> ranges{ByteRange(0, 3 * kBlock), ByteRange(5 * kBlock, kBlock)};
  with_each_failing(
      Threads::kThisOne, [&] { pool_.foresee(source_, fetcher_, ranges, Foresight::kAhead); },
      [&] { check(); });
}

TEST(Descriptors, AreKeptOrAreNot) {
  const test::TempDir directory;
  const std::string path = directory.write("a", "abc").string();
  int files[4] = {};
  const auto open = [&] {
    return std::make_shared<const Descriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  };
  DescriptorPool pool(0, 2);
  with_each_failing(
      Threads::kThisOne,
      [&] {
        for (int& file : files) pool.get(&file, open);
      },
      [&] {
        for (int round = 0; round < 2; ++round) {
          for (int& file : files) EXPECT_GE(pool.get(&file, open)->get(), 0);
        }
        EXPECT_EQ(pool.kept(), 2U);
        for (int& file : files) pool.forget(&file);
        EXPECT_EQ(pool.kept(), 0U) << "what was not noted is not forgotten either";
      });
}

TEST(Watches, SeeChangesAfterwards) {
  const test::TempDir directory;
  const std::string path = directory.write("a", "abc").string();
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (FileWatch::of(file.get()) == nullptr) GTEST_SKIP() << "no watches here";
  with_each_failing(
      Threads::kThisOne, [&] { FileWatch::of(file.get()); },
      [&] {
        const auto watch = FileWatch::of(file.get());
        ASSERT_NE(watch, nullptr);
        std::ofstream(path, std::ios::app) << "d" << std::flush;
        EXPECT_TRUE(watch->since(0).written);
      });
}

TEST(Windows, AdviseAfterwards) {
  StreamWindows windows;
  int file = 0;
  std::uint64_t offset = 0;
  const auto read = [&] {
    windows.advance(&file, std::uint64_t{1} << 40U, ByteRange(offset, 1 << 20), 64 << 20,
                    StreamWindows::Clock::time_point(std::chrono::hours(1)));
    offset += 1 << 20;
  };
  with_each_failing(
      Threads::kThisOne,
      [&] {
        windows.forget(&file);
        for (int i = 0; i < 3; ++i) read();
      },
      [&] { read(); });
}

/// A file that threads read: each part that was asked for comes, or the whole fails.
TEST(SlowFiles, AreReadOrFail) {
  const test::TempDir directory;
  const std::string content(3 << 20, 'x');
  const ByteSourcePtr file = open_local_file(directory.write("a", content));
  LocalReaders readers{LocalReaders::Limits{}};
  const auto speed = std::make_shared<FileSystemSpeed>();
  const LocalFetcher fetcher(file, "a version", speed, [&]() -> LocalReaders& { return readers; });
  std::vector<std::byte> out(content.size());
  std::atomic<int> ended = 0;
  int begun = 0;
  for (const Threads threads : {Threads::kThisOne, Threads::kAll}) {
    with_each_failing(
        threads,
        [&] {
          std::vector<std::span<std::byte>> pieces{std::span(out)};
          const int before = ended;
          try {
            fetcher.fetch(ByteRange(0, out.size()), std::move(pieces), Foresight::kNow,
                          [&](const std::exception_ptr& /*failure*/) {
                            ++ended;
                            ended.notify_all();
                          });
            ++begun;
          } catch (...) {
            if (ended == before) throw;
            ++begun;
            throw;
          }
          ended.wait(before);
        },
        [&] {
          EXPECT_EQ(ended, begun) << "a request ends once, or is refused";
          std::fill(out.begin(), out.end(), std::byte{0});
          std::atomic<bool> done = false;
          std::exception_ptr failed;
          fetcher.fetch(ByteRange(0, out.size()), {std::span(out)}, Foresight::kNow,
                        [&](const std::exception_ptr& failure) {
                          failed = failure;
                          done = true;
                          done.notify_all();
                        });
          done.wait(false);
          EXPECT_EQ(failed, nullptr);
          EXPECT_EQ(out.back(), std::byte{'x'});
        });
  }
}

}  // namespace
}  // namespace reshardfs::no_memory
