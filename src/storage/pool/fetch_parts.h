// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "storage/pool/range_fetcher.h"

namespace reshardfs {

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
