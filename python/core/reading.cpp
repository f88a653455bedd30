// SPDX-License-Identifier: Apache-2.0
#include "core/reading.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <pybind11/pybind11.h>

#include "core/faults.h"
#include "core/workers.h"

namespace reshardfs::python {
namespace {

using namespace std::chrono_literals;

/// Small enough that a read which is interrupted ends soon, and large enough for a disk.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20U;
/// How often signals are looked for.
constexpr auto kInterval = 20ms;
/// How often progress is told.
constexpr auto kLooking = 100ms;
/// For an export, whose threads end behind their blocks.
constexpr auto kGrace = 5s;

/// Work that several threads do together: each calls run().
class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  virtual ~Job() = default;

  /// @param threads that are to call run().
  static void start(const std::shared_ptr<Job>& job, std::size_t threads) {
    job->running_ = 1;
    for (std::size_t i = 0; i < threads; ++i) {
      {
        const std::lock_guard lock(job->mutex_);
        ++job->running_;
      }
      try {
        Workers::process().submit([job] { job->run_guarded(); });
      } catch (...) {
        job->leave(i == 0 ? std::current_exception() : nullptr);
        break;
      }
    }
    job->leave(nullptr);
  }

  /// Without the GIL. @return whether it is over.
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return over_.wait_for(lock, time, [this] { return running_ == 0; });
  }

  void stop() noexcept { stopped_ = true; }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 protected:
  bool is_stopped() const noexcept { return stopped_; }

 private:
  virtual void run() = 0;

  void run_guarded() noexcept {
    std::exception_ptr failure;
    try {
      run();
    } catch (...) {
      failure = std::current_exception();
    }
    leave(failure);
  }

  void leave(const std::exception_ptr& failure) noexcept {
    const std::lock_guard lock(mutex_);
    if (failure) {
      if (!failure_) failure_ = failure;
      stopped_ = true;
    }
    if (--running_ == 0) over_.notify_all();
  }

  std::atomic<bool> stopped_{false};
  std::mutex mutex_;  // guards all below
  std::condition_variable over_;
  std::size_t running_ = 0;
  std::exception_ptr failure_;
};

class ReadJob final : public Job {
 public:
  explicit ReadJob(std::vector<ReadRequest> parts) : parts_(std::move(parts)) {
    for (const ReadRequest& part : parts_) {
      begins_.push_back(pieces_);
      pieces_ += (part.bytes + kPieceBytes - 1) / kPieceBytes;
    }
  }

  std::uint64_t pieces() const noexcept { return pieces_; }

 private:
  void run() override {
    for (std::uint64_t piece = next_++; piece < pieces_ && !is_stopped(); piece = next_++) {
      const auto after = std::upper_bound(begins_.begin(), begins_.end(), piece);
      const auto number = static_cast<std::size_t>(after - begins_.begin()) - 1;
      const ReadRequest& part = parts_[number];
      const std::uint64_t offset = (piece - begins_[number]) * kPieceBytes;
      part.read(offset, std::min(kPieceBytes, part.bytes - offset));
    }
  }

  std::vector<ReadRequest> parts_;
  std::vector<std::uint64_t> begins_;  ///< of each part the number of its first piece
  std::uint64_t pieces_ = 0;
  std::atomic<std::uint64_t> next_{0};
};

class CallJob final : public Job {
 public:
  explicit CallJob(std::function<void()> work) : work_(std::move(work)) {}

 private:
  void run() override { work_(); }

  std::function<void()> work_;
};

/// Lets Python run meanwhile. @return whether it is over.
bool wait_a_moment(const std::shared_ptr<Job>& job) {
  bool over = false;
  {
    const pybind11::gil_scoped_release release;
    over = job->wait_for(kInterval);
  }
  log_faults();
  return over;
}

/// @throws pybind11::error_already_set
void check_signals() {
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

/// Work that ends cleanly may leave less behind.
void wait_for_end(const std::shared_ptr<Job>& job) {
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  while (std::chrono::steady_clock::now() < deadline && !wait_a_moment(job)) check_signals();
}

void finish(const std::shared_ptr<Job>& job, const Company& company = {}) {
  auto looked = std::chrono::steady_clock::now();
  try {
    while (!wait_a_moment(job)) {
      check_signals();
      const auto now = std::chrono::steady_clock::now();
      if (!company.look || now - looked < kLooking) continue;
      company.look();
      looked = now;
    }
    job->rethrow();
    // Where it has come to in the end.
    if (company.look) company.look();
  } catch (const pybind11::error_already_set&) {
    job->stop();
    if (company.stop) {
      company.stop();
      wait_for_end(job);
    }
    throw;
  }
}

}  // namespace

ReadRequest ReadRequest::into(
    std::span<std::byte> out,
    std::function<void(std::uint64_t offset, std::span<std::byte> out)> read,
    std::shared_ptr<void> keep) {
  return {[out, read = std::move(read), keep = std::move(keep)](std::uint64_t offset,
                                                                std::uint64_t bytes) {
            read(offset,
                 out.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes)));
          },
          out.size()};
}

void read_parts(std::vector<ReadRequest> parts, std::size_t threads) {
  const auto job = std::make_shared<ReadJob>(std::move(parts));
  if (job->pieces() == 0) return;
  if (threads == 0) threads = std::max(2U, std::thread::hardware_concurrency());
  Job::start(job, static_cast<std::size_t>(std::min<std::uint64_t>(threads, job->pieces())));
  finish(job);
}

void run_interruptibly(std::function<void()> work) {
  const auto job = std::make_shared<CallJob>(std::move(work));
  Job::start(job, 1);
  finish(job);
}

void run_in_company(std::function<void()> work, const Company& company) {
  const auto job = std::make_shared<CallJob>(std::move(work));
  Job::start(job, 1);
  finish(job, company);
}

}  // namespace reshardfs::python
