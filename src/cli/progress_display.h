// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

#include "export/block_engine.h"

namespace reshardfs {

/// "writing 1.2 GiB/4.0 GiB (30%), 800.0 MiB/s, 4 s left, rank_3/checkpoint_3.ckpt"
/// @param seconds since the phase began.
/// @param columns it may take: the name is shortened; 0: any number, and it counts files too.
std::string progress_text(const ExportProgress::Values& values, double seconds,
                          std::size_t columns);

/// Shows on standard error how far the work is, while it lives: on a terminal one line that is
/// written again and again and goes away at the end, else a line every ten seconds.
class ProgressDisplay {
 public:
  ProgressDisplay(const ExportProgress& progress, bool quiet);
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  /// Before anything else is printed.
  ~ProgressDisplay();

  /// Takes the line away until it is written again, so that others can print.
  void clear();

 private:
  void run();
  void show(const ExportProgress::Values& values, double seconds);

  const ExportProgress& progress_;
  bool terminal_;
  bool line_is_there_ = false;
  std::mutex mutex_;  // guards those around it
  std::condition_variable wake_;
  bool ended_ = false;
  std::jthread thread_;
};

}  // namespace reshardfs
