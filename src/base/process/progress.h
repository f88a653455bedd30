// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/engine.h"
#include "base/process/interrupted.h"

namespace reshardfs {

/// The progress of long work, to be shown while it runs. Every member may be used from any thread.
class Progress {
 public:
  struct Values {
    std::string phase{};    ///< "hashing", "writing", ...; empty: the work has none, or none yet
    std::string current{};  ///< the file that was begun last
    std::uint64_t bytes = 0;
    std::uint64_t total_bytes = 0;
    std::uint64_t files = 0;
    std::uint64_t total_files = 0;
  };
  RESHARDFS_ENGINE Values values() const;

  /// @throws Interrupted after stop().
  void add_bytes(std::uint64_t bytes) {
    bytes_ += bytes;
    if (stopped_) throw Interrupted();
  }
  void add_file() noexcept { ++files_; }
  void set_current(const std::string& name);

  /// Begins to count anew.
  void start(const std::string& phase, std::uint64_t total_bytes, std::uint64_t total_files);

  /// For work that finds out while it runs how much there is, and that some of it is not needed.
  void expect_bytes(std::uint64_t bytes) noexcept { total_bytes_ += bytes; }
  void expect_fewer_bytes(std::uint64_t bytes) noexcept { total_bytes_ -= bytes; }
  void expect_no_more() noexcept { total_bytes_ = bytes_.load(); }

  /// Ends the work where it has come to.
  void stop() noexcept { stopped_ = true; }
  const std::atomic<bool>& stopped() const noexcept { return stopped_; }

 private:
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> total_bytes_{0};
  std::atomic<std::uint64_t> files_{0};
  mutable std::mutex mutex_;  // guards those below
  std::string phase_;
  std::string current_;
  std::uint64_t total_files_ = 0;
};

}  // namespace reshardfs
