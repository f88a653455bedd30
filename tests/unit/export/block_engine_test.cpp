// SPDX-License-Identifier: Apache-2.0
#include "export/block_engine.h"

#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory_file.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::MemoryFile;
using test::sha256_of;
using test::varied_bytes;

/// Keeps what it gets, and who brought it.
class KeepingJob final : public BlockJob {
 public:
  explicit KeepingJob(std::string bytes) : bytes_(bytes), got_(bytes.size(), '?'), file_(bytes) {}

  const VirtualFile& file() const override { return file_; }
  const std::string& name() const override { return name_; }
  std::size_t block_bytes() const override { return own_block; }
  SumKinds sums() const override { return kinds; }
  void begin() override { ++begun; }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    if (writes_fail) throw io_error("write", "disk", ENOSPC);
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::lock_guard lock(mutex_);
    sizes.insert(bytes.size());
    std::memcpy(got_.data() + offset, bytes.data(), bytes.size());
    workers.insert(std::this_thread::get_id());
  }
  void finish(const ContentSums& sums) override {
    ++finished;
    EXPECT_EQ(got_, bytes_);
    ContentHash expected(kinds);
    expected.update(std::as_bytes(std::span(bytes_)));
    const ContentSums all = expected.finish();
    EXPECT_EQ(sums.sha256, all.sha256);
    EXPECT_EQ(sums.xxh3, all.xxh3);
  }
  MemoryFile& memory() { return file_; }

  int begun = 0;
  int finished = 0;
  bool writes_fail = false;
  bool slow = false;
  std::set<std::thread::id> workers;
  std::set<std::size_t> sizes;
  std::size_t own_block = 0;
  SumKinds kinds = SumKinds::kBoth;

 private:
  std::string name_ = "a file";
  std::string bytes_;
  std::string got_;
  MemoryFile file_;
  std::mutex mutex_;  // guards got_, sizes and workers
};

struct Jobs {
  std::vector<std::unique_ptr<BlockJob>> list;
  std::vector<KeepingJob*> jobs;

  KeepingJob& add(std::size_t bytes) {
    auto job =
        std::make_unique<KeepingJob>(varied_bytes(bytes, static_cast<unsigned>(jobs.size() + 1)));
    jobs.push_back(job.get());
    list.push_back(std::move(job));
    return *jobs.back();
  }
};

/// Has all but some ranges already.
class PartJob final : public BlockJob {
 public:
  PartJob(std::string bytes, std::vector<ByteRange> lacking)
      : bytes_(std::move(bytes)), lacking_(std::move(lacking)), got_(bytes_), file_(bytes_) {
    for (const ByteRange& part : lacking_)
      got_.replace(part.offset(), part.length(), part.length(), '?');
  }

  const VirtualFile& file() const override { return file_; }
  const std::string& name() const override { return name_; }
  std::size_t block_bytes() const override { return 100; }
  std::vector<ByteRange> lacking(const ByteRange& range) const override {
    std::vector<ByteRange> found;
    for (const ByteRange& part : lacking_) {
      const std::uint64_t begin = std::max(part.offset(), range.offset());
      const std::uint64_t end = std::min(part.end(), range.end());
      if (begin < end) found.push_back(ByteRange::between(begin, end));
    }
    return found;
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    written += bytes.size();
    std::memcpy(got_.data() + offset, bytes.data(), bytes.size());
  }
  SumKinds sums() const override { return SumKinds::kSha256; }
  void finish(const ContentSums& sums) override {
    EXPECT_EQ(got_, bytes_);
    sum = sums.sha256;
    ++finished;
  }

  std::uint64_t written = 0;
  int finished = 0;
  std::string sum;

 private:
  const std::string name_ = "a file";
  const std::string bytes_;
  const std::vector<ByteRange> lacking_;
  std::string got_;
  MemoryFile file_;
  std::mutex mutex_;
};

TEST(BlockEngine, WritesOnlyWhatIsLacking) {
  const std::string bytes = varied_bytes(1000, 9);
  const auto run = [&](std::vector<ByteRange> lacking, std::uint64_t written,
                       const std::string& sum) {
    auto job = std::make_unique<PartJob>(bytes, std::move(lacking));
    PartJob& part = *job;
    std::vector<std::unique_ptr<BlockJob>> jobs;
    jobs.push_back(std::move(job));
    run_blocks(jobs, {.workers = 3, .block_bytes = 100});
    EXPECT_EQ(part.written, written);
    EXPECT_EQ(part.sum, sum);
    EXPECT_EQ(part.finished, 1);
  };
  run({}, 0, "");
  run({{0, 30}, {95, 10}, {250, 1}, {600, 400}}, 441, "");
  // All of it: then the file has its sum.
  run({{0, 1000}}, 1000, sha256_of(bytes));
}

TEST(BlockEngine, ComputesTheSumsThatAJobWants) {
  for (const SumKinds kinds : {SumKinds::kNone, SumKinds::kXxh3, SumKinds::kSha256}) {
    Jobs jobs;
    KeepingJob& job = jobs.add(100'000);
    job.kinds = kinds;
    run_blocks(jobs.list, {.workers = 3, .block_bytes = 1000});
    EXPECT_EQ(job.finished, 1);
  }
}

TEST(ContentHash, GivesWhatOthersGive) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  ContentHash hash(SumKinds::kBoth);
  hash.update(std::as_bytes(std::span(text)).first(10));
  hash.update(std::as_bytes(std::span(text)).subspan(10));
  const ContentSums sums = hash.finish();
  EXPECT_EQ(sums.sha256, "d7a8fbb307d7809469ca9abcb0082e4f8d5651e46d3cdb762d02d0bf37c9e592");
  // xxhsum -H2
  EXPECT_EQ(sums.xxh3, "ddd650205ca3e7fa24a1cc2e3a8a7651");
  EXPECT_EQ(ContentHash(SumKinds::kXxh3).finish().xxh3, "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(ContentHash(SumKinds::kXxh3).finish().sha256, "");
  EXPECT_EQ(ContentHash(SumKinds::kSha256).finish().xxh3, "");
}

TEST(BlockEngine, LetsAJobChooseItsBlocks) {
  Jobs jobs;
  for (const std::size_t own : {7U, 0U, 100U}) jobs.add(50).own_block = own;
  BlockEngineOptions options;
  options.workers = 3;
  options.block_bytes = 20;
  run_blocks(jobs.list, options);
  for (const KeepingJob* job : jobs.jobs) EXPECT_EQ(job->finished, 1);
  EXPECT_EQ(jobs.jobs[0]->sizes, (std::set<std::size_t>{1, 7}));
  EXPECT_EQ(jobs.jobs[1]->sizes, (std::set<std::size_t>{10, 20}));
  EXPECT_EQ(jobs.jobs[2]->sizes, std::set<std::size_t>{50});
}

TEST(BlockEngine, WritesAndHashesFilesOfAnySizeWithAnyNumberOfWorkers) {
  for (const std::size_t workers : {1U, 2U, 7U}) {
    Jobs jobs;
    for (const std::size_t bytes : {0U, 1U, 99U, 100U, 101U, 1000U, 5050U}) jobs.add(bytes);
    Progress progress;
    run_blocks(jobs.list, {workers, 100, nullptr, &progress});
    for (const KeepingJob* job : jobs.jobs) {
      EXPECT_EQ(job->begun, 1);
      EXPECT_EQ(job->finished, 1);
    }
    EXPECT_EQ(progress.values().bytes, 6351U);
    EXPECT_EQ(progress.values().files, 7U);
  }
}

TEST(BlockEngine, GivesOneLargeFileToAllWorkers) {
  Jobs jobs;
  KeepingJob& job = jobs.add(4000);
  job.slow = true;
  run_blocks(jobs.list, {4, 100, nullptr, nullptr});
  EXPECT_EQ(job.finished, 1);
  EXPECT_GE(job.workers.size(), 2U);
}

TEST(BlockEngine, StopsAllWorkersAtAnErrorAndThrowsIt) {
  for (const std::size_t workers : {1U, 4U}) {
    Jobs jobs;
    jobs.add(1000);
    jobs.add(1000).memory().fail_from(500);
    // So long that nobody is through with it while another waits for a processor.
    constexpr std::size_t kBlock = 100;
    constexpr std::size_t kBlocks = 100000;
    KeepingJob& last = jobs.add(kBlock * kBlocks);
    test::expect_error(ErrorKind::kIo, {"memory"}, [&] {
      run_blocks(jobs.list, {workers, kBlock, nullptr, nullptr});
    });
    EXPECT_EQ(jobs.jobs[1]->finished, 0);
    EXPECT_EQ(last.finished, 0);
    EXPECT_LT(last.memory().reads(), kBlocks);
  }
}

TEST(BlockEngine, PassesErrorsOfWritingOn) {
  Jobs jobs;
  KeepingJob& job = jobs.add(1000);
  job.writes_fail = true;
  test::expect_error(ErrorKind::kIo, {"disk", "No space"}, [&] {
    run_blocks(jobs.list, {3, 100, nullptr, nullptr});
  });
  EXPECT_EQ(job.finished, 0);
}

TEST(BlockEngine, StopsBetweenBlocks) {
  Jobs jobs;
  KeepingJob& job = jobs.add(1000);
  const std::atomic<bool> stop{true};
  EXPECT_THROW(run_blocks(jobs.list, {2, 100, &stop, nullptr}), Interrupted);
  EXPECT_EQ(job.memory().reads(), 0U);
  EXPECT_EQ(job.finished, 0);
}

TEST(BlockEngine, KeepsBuffersWithinTheMemory) {
  for (const std::uint64_t memory : {1ULL, 100000ULL, 1000000ULL, 1ULL << 28U, 1ULL << 40U}) {
    for (const std::size_t workers : {1U, 2U, 64U, 1000U}) {
      const BlockEngineOptions options = block_engine_options(workers, memory);
      EXPECT_GE(options.workers, 1U);
      EXPECT_LE(options.workers, workers);
      EXPECT_GE(options.block_bytes, 65536U);
      EXPECT_EQ(options.block_bytes % 4096, 0U);
      EXPECT_LE(options.workers * options.block_bytes, std::max<std::uint64_t>(memory, 65536));
    }
  }
}

}  // namespace
}  // namespace reshardfs
