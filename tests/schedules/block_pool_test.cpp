// SPDX-License-Identifier: Apache-2.0
/// Readers of one pool, one who fetches ahead, and requests that end in any order, with errors now
/// and then: each read gets its bytes or an error, and no wait is ended by its time.
#include "storage/pool/block_pool.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "schedule.h"
#include "support/object_fetcher.h"

namespace reshardfs::schedules {
namespace {

constexpr std::uint64_t kSector = BlockPool::kSectorBytes;
constexpr std::uint64_t kObjectSectors = 4 * BlockPool::kSectors;

/// Threads bring what is asked for, in any order.
class Network final : public ObjectFetcher {
 public:
  Network() : ObjectFetcher(kObjectSectors * kSector) {
    for (std::thread& thread : threads_) thread = std::thread([this] { work(); });
  }
  ~Network() override {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    came_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight /*when*/,
             Done done) const override {
    if (random_below(16) == 0) throw Error(ErrorKind::kIo, "refused");
    {
      const std::scoped_lock lock(mutex_);
      requests_.push_back({range.offset(), std::move(out), std::move(done)});
    }
    came_.notify_one();
  }

 private:
  struct Request {
    std::uint64_t offset = 0;
    std::vector<std::span<std::byte>> out;
    Done done;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      came_.wait(lock, [this] { return ended_ || !requests_.empty(); });
      if (requests_.empty()) return;
      std::swap(requests_[random_below(requests_.size())], requests_.back());
      const Request request = std::move(requests_.back());
      requests_.pop_back();
      lock.unlock();
      answer(request);
      lock.lock();
    }
  }
  static void answer(const Request& request) {
    const bool fails = random_below(8) == 0;
    std::uint64_t offset = request.offset;
    for (const std::span<std::byte>& piece : request.out) {
      if (fails) {
        std::fill(piece.begin(), piece.end(), std::byte{0});
      } else {
        fill_sectors(offset, piece);
      }
      offset += piece.size();
    }
    request.done(fails ? std::make_exception_ptr(Error(ErrorKind::kIo, "lost")) : nullptr);
  }

  mutable std::mutex mutex_;  // guards those below
  mutable std::condition_variable came_;
  mutable std::vector<Request> requests_;
  bool ended_ = false;
  std::vector<std::thread> threads_ = std::vector<std::thread>(2);
};

struct Tally {
  std::uint64_t wrong = 0;
  std::uint64_t right = 0;
  std::uint64_t errors = 0;
  std::uint64_t left = 0;  ///< blocks that stay
};

/// One thread at a time runs: a tally needs no lock.
void read_here_and_there(BlockPool& pool, std::uint64_t source, const Network& network,
                         Tally& tally) {
  std::vector<std::byte> buffer(3 * kSector);
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t offset = random_below(kObjectSectors - 3) * kSector + random_below(100);
    const auto out = std::span(buffer).first((1 + random_below(3)) * kSector - 100);
    try {
      pool.read(source, network, offset, out);
    } catch (const Error&) {
      ++tally.errors;
      continue;
    }
    bool right = true;
    for (std::size_t at = 0; at < out.size(); at += 97)
      right &= out[at] == sector_byte(offset + at);
    ++(right ? tally.right : tally.wrong);
  }
}

void foresee_here_and_there(BlockPool& pool, std::uint64_t source, const Network& network) {
  for (int i = 0; i < 3; ++i) {
    const std::vector<ByteRange> ranges{
        ByteRange(random_below(kObjectSectors - 4) * kSector, 4 * kSector),
        ByteRange(random_below(kObjectSectors - 1) * kSector, kSector)};
    pool.foresee(source, network, ranges,
                 random_below(2) == 0 ? Foresight::kAhead : Foresight::kApart);
  }
}

Tally use_pool(std::uint64_t blocks) {
  Tally tally;
  BlockPool pool(blocks * BlockPool::kBlockBytes);
  const std::uint64_t source = pool.add_source();
  {
    const Network network;
    std::vector<std::thread> users;
    for (int i = 0; i < 3; ++i) {
      users.emplace_back([&] { read_here_and_there(pool, source, network, tally); });
    }
    users.emplace_back([&] { foresee_here_and_there(pool, source, network); });
    for (std::thread& user : users) user.join();
  }
  pool.remove_source(source);
  tally.left = pool.figures().blocks;
  return tally;
}

TEST(BlockPoolSchedules, GiveRightBytesOrErrors) {
  std::uint64_t right = 0;
  std::uint64_t errors = 0;
  std::uint64_t steps = 0;
  for_each_seed(60, [&](const Options& options) {
    Tally tally;
    // With room for all blocks, for some, and for fewer than the readers use at once.
    const Outcome outcome = run(options, [&] { tally = use_pool(1 + options.seed % 5); });
    EXPECT_EQ(tally.wrong, 0U);
    EXPECT_EQ(tally.right + tally.errors, 12U);
    EXPECT_EQ(tally.left, 0U);
    EXPECT_EQ(outcome.rescued, 0U) << "who waited was not woken";
    right += tally.right;
    errors += tally.errors;
    steps += outcome.steps;
  });
  std::printf("%lu steps, %lu reads were right and %lu failed\n", steps, right, errors);
}

/// The test above can fail.
TEST(BlockPoolSchedules, FindALostNotification) {
  std::uint64_t found = 0;
  for_each_seed(5, [&](Options options) {
    options.lost_notifications = 5;
    found += run(options, [&] { use_pool(4); }).rescued;
  });
  EXPECT_GT(found, 0U);
}

}  // namespace
}  // namespace reshardfs::schedules
