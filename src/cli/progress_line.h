// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "check/check_progress.h"

namespace reshardfs {

/// One line on standard error that says how far a check has come, while it lives; nothing if that
/// is no terminal.
class ProgressLine {
 public:
  /// @param show false: never.
  ProgressLine(const CheckProgress& progress, bool show);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Takes the line away.
  ~ProgressLine();

 private:
  void run();

  const CheckProgress& progress_;
  std::mutex mutex_;  // guards done_
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

/// "1.2 GiB of 4.0 GiB, 512.0 MiB/s, 6 s left"
std::string progress_text(std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace reshardfs
