// SPDX-License-Identifier: Apache-2.0
/// Objects that are fetched when a test says so.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "storage/pool/range_fetcher.h"
#include "support/object_fetcher.h"

namespace reshardfs::test {

/// The byte of an object at an offset: no two sectors are alike, and no two objects.
inline std::byte byte_at(std::uint64_t offset, std::uint64_t object = 0) {
  std::uint64_t x = (offset / 8 + 1) * 0x9E3779B97F4A7C15U + object * 0xD6E8FEB86659FD93U;
  x ^= x >> 32U;
  return static_cast<std::byte>((x >> (offset % 8 * 4)) & 0xffU);
}

/// Whether bytes are those of the object from `offset` on.
inline bool is_of_object(std::span<const std::byte> bytes, std::uint64_t offset,
                         std::uint64_t object = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != byte_at(offset + i, object)) return false;
  }
  return true;
}

/// A request that a fetcher was asked for.
struct Asked {
  ByteRange range{};
  std::vector<std::span<std::byte>> out{};
  Foresight when = Foresight::kNow;
  RangeFetcher::Done done{};

  /// Brings the bytes.
  void bring(std::uint64_t object = 0) const {
    std::uint64_t offset = range.offset();
    for (const std::span<std::byte>& piece : out) {
      for (std::byte& byte : piece) byte = byte_at(offset++, object);
    }
    EXPECT_EQ(offset, range.end()) << "there is memory for the range alone";
    done(nullptr);
  }
  void fail() const { done(std::make_exception_ptr(Error(ErrorKind::kIo, "the test fails it"))); }
};

/// What all fetchers of tests have in common.
class TestFetcher : public ObjectFetcher {
 public:
  using ObjectFetcher::ObjectFetcher;

  void check_unchanged() const override {
    if (changed) throw Error(ErrorKind::kChanged, "the test has changed it").in_file(name());
  }

  bool changed = false;
};

/// Keeps requests until the test brings or fails them.
class HandFetcher final : public TestFetcher {
 public:
  using TestFetcher::TestFetcher;

  bool is_remote() const noexcept override { return !is_file; }
  Answering answering() const noexcept override {
    ++looks_;
    looks_.notify_all();
    return answers;
  }
  /// How many times those who wait have asked whether it answers.
  int looks() const noexcept { return looks_; }
  /// Waits until they have asked as many times.
  void await_looks(int count) const {
    for (int now = looks_; now < count; now = looks_) looks_.wait(now);
  }
  std::chrono::steady_clock::duration patience() const noexcept override { return patience_; }
  /// From now on, what is not there at once is stuck.
  void be_impatient() {
    patience_ = std::chrono::steady_clock::duration::zero();
    answers = Answering::kPartly;
  }

  std::atomic<bool> is_file = false;
  std::atomic<Answering> answers = Answering::kYes;

  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
             Done done) const override {
    const std::scoped_lock lock(mutex_);
    if (refusals_ > 0) {
      --refusals_;
      throw Error(ErrorKind::kIo, "no request can be made");
    }
    asked_.push_back({range, std::move(out), when, std::move(done)});
    ranges_.push_back(range);
    came_.notify_all();
  }

  /// The next request; waits until there is one.
  Asked take() const {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return !asked_.empty(); });
    Asked first = std::move(asked_.front());
    asked_.pop_front();
    return first;
  }
  /// The range of the next request; waits until there is one.
  ByteRange waiting_range() const {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return !asked_.empty(); });
    return asked_.front().range;
  }
  /// Waits until so many requests were made since the beginning.
  void await(std::size_t count) const {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return ranges_.size() >= count; });
  }
  /// Brings all that are waiting.
  void bring_all() const {
    while (waiting() > 0) take().bring();
  }
  std::size_t waiting() const {
    const std::scoped_lock lock(mutex_);
    return asked_.size();
  }
  /// All that was asked for since the beginning.
  std::vector<ByteRange> ranges() const {
    const std::scoped_lock lock(mutex_);
    return ranges_;
  }
  /// The next requests cannot be made.
  void refuse(unsigned count) const {
    const std::scoped_lock lock(mutex_);
    refusals_ = count;
  }

 private:
  mutable std::atomic<int> looks_ = 0;

  mutable std::mutex mutex_;  // guards all below
  mutable std::condition_variable came_;
  mutable std::deque<Asked> asked_;
  mutable std::vector<ByteRange> ranges_;
  mutable unsigned refusals_ = 0;
  std::atomic<std::chrono::steady_clock::duration> patience_ =
      std::chrono::steady_clock::duration::max();
};

/// Brings each request before fetch() returns.
class ReadyFetcher final : public TestFetcher {
 public:
  explicit ReadyFetcher(std::uint64_t size, bool by_blocks = false)
      : TestFetcher(size), by_blocks_(by_blocks) {}

  bool by_blocks() const noexcept override { return by_blocks_; }

  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
             Done done) const override {
    {
      const std::scoped_lock lock(mutex_);
      asked_.emplace_back(range, when);
    }
    Asked{range, std::move(out), when, std::move(done)}.bring();
  }

  /// All that was asked for, and how soon it was needed.
  std::vector<std::pair<ByteRange, Foresight>> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

 private:
  const bool by_blocks_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<ByteRange, Foresight>> asked_;  ///< guarded by mutex_
};

/// Waits for what another thread does without telling.
template <typename Condition>
void until(const Condition& holds) {
  while (!holds()) std::this_thread::yield();
}

}  // namespace reshardfs::test
