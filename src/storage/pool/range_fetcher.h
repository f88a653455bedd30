// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_range.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// Fetches ranges of one version of one object, many at once. It fails if the object has another
/// version. Every member function may be called from any number of threads at once.
class RangeFetcher {
 public:
  /// Called once, on any thread; must not wait. @param failure null: the range is complete
  using Done = std::function<void(std::exception_ptr failure)>;

  RangeFetcher() = default;
  RangeFetcher(const RangeFetcher&) = delete;
  RangeFetcher& operator=(const RangeFetcher&) = delete;
  virtual ~RangeFetcher() = default;

  virtual const std::string& name() const noexcept = 0;
  virtual std::uint64_t size() const noexcept = 0;
  /// Nanoseconds since the epoch.
  virtual std::int64_t mtime_ns() const noexcept = 0;
  virtual FileStamp stamp() const noexcept = 0;
  /// Identifies this version among all versions of all objects; empty if this is not certain.
  virtual const std::string& identity() const noexcept = 0;
  /// Whether bytes of it have been read, or it is known in another way that the user may read it.
  virtual bool is_opened() const noexcept { return true; }
  /// See ByteSource::is_remote().
  virtual bool is_remote() const noexcept { return true; }
  /// @throws Error kChanged if another version is known to exist.
  virtual void check_unchanged() const = 0;

  enum class Answering : std::uint8_t {
    kYes,      ///< or nobody has asked
    kPartly,   ///< some requests take so long that they may never come, others come
    kUnknown,  ///< nothing has come yet, and others nearby hang
    kNo,       ///< nothing has come since
    kTried,    ///< nor that, but a request waits already to try again: more are of no use
  };
  /// Requests to servers end with an error instead.
  virtual Answering answering() const noexcept { return Answering::kYes; }
  /// What takes longer may never come, even if the rest does.
  virtual std::chrono::steady_clock::duration patience() const noexcept {
    return std::chrono::steady_clock::duration::max();
  }

  /// Whether to request whole blocks (BlockPool::kBlockBytes), because they are cached as such.
  virtual bool by_blocks() const noexcept { return false; }

  /// Begins to fetch a range.
  /// @param range must not be empty, and must lie in the object.
  /// @param out consecutive pieces of memory with the total length of the range. They must stay
  ///        valid until `done` is called.
  /// @throws std::bad_alloc, Error; then `done` will not be called.
  virtual void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
                     Done done) const = 0;
};

using RangeFetcherPtr = std::shared_ptr<const RangeFetcher>;

/// The parts of one request, until the last part has arrived.
class FetchParts {
 public:
  explicit FetchParts(RangeFetcher::Done done) : done_(std::move(done)) {}

  void add() { ++open_; }
  void end(const std::exception_ptr& failure) {
    {
      const std::scoped_lock lock(mutex_);
      if (failure_ == nullptr) failure_ = failure;
    }
    if (--open_ == 0) done_(failure_);
  }

 private:
  RangeFetcher::Done done_;
  std::atomic<unsigned> open_ = 1;  ///< and one for the thread that adds them
  std::mutex mutex_;
  std::exception_ptr failure_;  ///< guarded by mutex_
};

}  // namespace reshardfs
