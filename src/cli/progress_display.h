// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/process/progress.h"

namespace reshardfs {

/// "writing 1.2 GiB/4.0 GiB (30%), 800.0 MiB/s, 4 s left, rank_3/checkpoint_3.ckpt"; without a
/// phase "1.2 GiB of 4.0 GiB, 512.0 MiB/s, 6 s left".
/// @param seconds since the phase began.
/// @param columns it may take: the name is shortened; 0: any number, and it counts files too.
std::string progress_text(const Progress::Values& values, double seconds, std::size_t columns);

/// "4.0 s (3.0 GiB/s)"; without a rate if there were no bytes.
std::string pace_text(std::uint64_t bytes, double seconds);

enum class ShowProgress : std::uint8_t {
  kEverywhere,  ///< from the first phase on; also to who listens (messages.h)
  kOnTerminal   ///< and nowhere else, with a phase or without
};

/// Work that took this long ends with a line of what was read.
inline constexpr std::chrono::steady_clock::duration kLongWork = std::chrono::seconds(2);

/// Shows on standard error how far the work is, while it lives: on a terminal one line that is
/// written again and again and goes away at the end, else a line every ten seconds.
class ProgressDisplay {
 public:
  ProgressDisplay(const Progress& progress, bool quiet,
                  ShowProgress show = ShowProgress::kEverywhere);
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  /// Before anything else is printed.
  ~ProgressDisplay();

  /// Long work that succeeds ends with "12.0 GiB read in 4.0 s (3.0 GiB/s)". For commands whose
  /// result does not say so.
  void sum_up_at_end(std::chrono::steady_clock::duration long_work = kLongWork) noexcept {
    long_work_ = long_work;
  }

  /// Takes the line away until it is written again, so that others can print.
  void clear();

 private:
  bool tells() const noexcept;
  void run();
  void show(const Progress::Values& values, double seconds);

  void sum_up() const;

  const Progress& progress_;
  ShowProgress show_;
  bool quiet_;
  bool terminal_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  const int exceptions_ = std::uncaught_exceptions();
  std::optional<std::chrono::steady_clock::duration> long_work_{};
  bool line_is_there_ = false;
  std::mutex mutex_;  // guards those around it
  std::condition_variable wake_;
  bool ended_ = false;
  std::jthread thread_;
};

}  // namespace reshardfs
