// SPDX-License-Identifier: Apache-2.0
/// Threads that read, foresee, fail and forget at random, against what is in the objects.
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "hand_fetcher.h"
#include "storage/pool/block_pool.h"
#include "support/shared_exceptions.h"

namespace reshardfs {
namespace {

using test::Asked;
using test::byte_at;

constexpr unsigned kSeed = 20'240'607;
constexpr std::uint64_t kObjectBytes = 12 * BlockPool::kBlockBytes + 777;
constexpr std::uint64_t kCapacity = 6 * BlockPool::kBlockBytes;

/// Threads that bring what was asked for, in any order, and fail some of it.
class Deliveries {
 public:
  struct Delivery {
    Asked asked;
    const std::vector<std::byte>* bytes = nullptr;
  };

  Deliveries() {
    for (unsigned i = 0; i < 3; ++i) {
      threads_.emplace_back([this, i] { run(kSeed + i); });
    }
  }
  Deliveries(const Deliveries&) = delete;
  Deliveries& operator=(const Deliveries&) = delete;
  ~Deliveries() {
    {
      const std::scoped_lock lock(mutex_);
      at_end_ = true;
    }
    came_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void add(Delivery delivery) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(delivery));
    came_.notify_one();
  }
  std::uint64_t failed() const { return failed_; }

 private:
  void run(unsigned seed) {
    std::minstd_rand random(seed);
    while (true) {
      Delivery next;
      {
        std::unique_lock lock(mutex_);
        came_.wait(lock, [&] { return at_end_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        const auto chosen =
            waiting_.begin() + static_cast<std::ptrdiff_t>(random() % waiting_.size());
        next = std::move(*chosen);
        waiting_.erase(chosen);
      }
      deliver(next, random() % 12 == 0);
    }
  }

  void deliver(const Delivery& delivery, bool fails) {
    const Asked& asked = delivery.asked;
    const std::byte* from = delivery.bytes->data() + asked.range.offset();
    for (const std::span<std::byte>& piece : asked.out) {
      // What fails has brought something, too.
      const std::size_t count = fails ? piece.size() / 2 : piece.size();
      if (fails) std::fill_n(piece.begin(), count, std::byte{0xEE});
      if (!fails) std::copy_n(from, count, piece.begin());
      from += piece.size();
    }
    if (!fails) return asked.done(nullptr);
    ++failed_;
    asked.fail();
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Delivery> waiting_;  ///< guarded by mutex_, as is the next
  bool at_end_ = false;
  std::atomic<std::uint64_t> failed_ = 0;
  std::vector<std::thread> threads_;
};

class LateFetcher final : public test::TestFetcher {
 public:
  LateFetcher(const std::vector<std::byte>& bytes, Deliveries& deliveries)
      : TestFetcher(bytes.size()), bytes_(bytes), deliveries_(deliveries) {}

  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
             Done done) const override {
    deliveries_.add({{range, std::move(out), when, std::move(done)}, &bytes_});
  }

 private:
  const std::vector<std::byte>& bytes_;
  Deliveries& deliveries_;
};

struct Object {
  std::vector<std::byte> bytes;
  std::uint64_t source = 0;
};

/// What one of the threads does.
class Reader {
 public:
  Reader(BlockPool& pool, Deliveries& deliveries, const std::array<Object, 2>& objects,
         unsigned seed)
      : pool_(pool), deliveries_(deliveries), objects_(objects), random_(seed) {}

  void run(unsigned steps) {
    for (unsigned i = 0; i < steps; ++i) {
      const Object& object = objects_[random_() % objects_.size()];
      const LateFetcher fetcher(object.bytes, deliveries_);
      // Some sources are used by one thread alone, and forgotten while requests are under way.
      const bool own = random_() % 4 == 0;
      const std::uint64_t source = own ? pool_.add_source() : object.source;
      if (random_() % 3 == 0) foresee(source, fetcher);
      read(object, source, fetcher);
      if (own && random_() % 2 == 0) foresee(source, fetcher);
      if (own) pool_.remove_source(source);
      EXPECT_LE(pool_.figures().blocks, kCapacity / BlockPool::kBlockBytes);
    }
  }

 private:
  ByteRange range() {
    const std::uint64_t most = std::uint64_t{1} << (random_() % 22);
    const std::uint64_t length = 1 + random_() % most;
    return {random_() % (kObjectBytes - length), length};
  }
  void foresee(std::uint64_t source, const LateFetcher& fetcher) {
    std::vector<ByteRange> ranges;
    for (auto i = random_() % 5; i > 0; --i) ranges.push_back(range());
    pool_.foresee(source, fetcher, ranges,
                  random_() % 2 == 0 ? Foresight::kNow : Foresight::kAhead);
  }
  void read(const Object& object, std::uint64_t source, const LateFetcher& fetcher) {
    const ByteRange wanted = range();
    std::vector<std::byte> out(wanted.length());
    for (unsigned attempt = 0; attempt < 50; ++attempt) {
      try {
        pool_.read(source, fetcher, wanted.offset(), out);
      } catch (const Error& error) {
        ASSERT_EQ(error.message(), "the test fails it");
        continue;
      }
      const auto begin = object.bytes.begin() + static_cast<std::ptrdiff_t>(wanted.offset());
      ASSERT_TRUE(std::equal(out.begin(), out.end(), begin))
          << out.size() << " bytes at " << wanted.offset();
      return;
    }
    FAIL() << "50 failures of one read";
  }

  BlockPool& pool_;
  Deliveries& deliveries_;
  const std::array<Object, 2>& objects_;
  std::minstd_rand random_;
};

TEST(BlockPoolThreads, ReadWhatIsInTheObjects) {
  BlockPool pool(kCapacity);
  std::array<Object, 2> objects;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    objects[i].source = pool.add_source();
    objects[i].bytes.resize(kObjectBytes);
    for (std::uint64_t at = 0; at < kObjectBytes; ++at) objects[i].bytes[at] = byte_at(at, i);
  }
  std::uint64_t failed = 0;
  {
    Deliveries deliveries;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 16; ++i) {
      threads.emplace_back(
          [&, i] { Reader(pool, deliveries, objects, kSeed + 100 * (i + 1)).run(60); });
    }
    for (std::thread& thread : threads) thread.join();
    failed = deliveries.failed();
  }
  RecordProperty("seed", static_cast<int>(kSeed));
  EXPECT_GT(failed, 0U) << "seed " << kSeed;
  EXPECT_GT(pool.figures().hits, 0U);
}

}  // namespace
}  // namespace reshardfs
