// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "base/process/progress.h"

namespace reshardfs {

/// "writing 1.2 GiB/4.0 GiB (30%), 800.0 MiB/s, 4 s left, rank_3/checkpoint_3.ckpt"; without a
/// phase "1.2 GiB of 4.0 GiB, 512.0 MiB/s, 6 s left".
/// @param seconds since the phase began.
/// @param columns it may take: the name is shortened; 0: any number, and it counts files too.
std::string progress_text(const Progress::Values& values, double seconds, std::size_t columns);

enum class ShowProgress : std::uint8_t {
  kEverywhere,  ///< from the first phase on; also to who listens (messages.h)
  kOnTerminal   ///< and nowhere else, with a phase or without
};

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

  /// Takes the line away until it is written again, so that others can print.
  void clear();

 private:
  bool tells() const noexcept;
  void run();
  void show(const Progress::Values& values, double seconds);

  const Progress& progress_;
  ShowProgress show_;
  bool terminal_;
  bool line_is_there_ = false;
  std::mutex mutex_;  // guards those around it
  std::condition_variable wake_;
  bool ended_ = false;
  std::jthread thread_;
};

}  // namespace reshardfs
