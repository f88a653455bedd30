// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <iostream>

#include <fmt/format.h>

#include "report/text/text.h"

namespace reshardfs {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

}  // namespace

std::string progress_text(std::uint64_t done, std::uint64_t total, double seconds) {
  // Both move while they are read.
  total = std::max(done, total);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string text = fmt::format("{} of {}", human_bytes(done), human_bytes(total));
  if (rate < 1) return text;
  const double left = static_cast<double>(total - done) / rate;
  return text + fmt::format(", {}/s, {} left", human_bytes(static_cast<std::uint64_t>(rate)),
                            duration_text(static_cast<std::uint64_t>(std::llround(left))));
}

ProgressLine::ProgressLine(const CheckProgress& progress, bool show) : progress_(progress) {
  if (!show || ::isatty(STDERR_FILENO) != 1) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception&) {
    // The work is done without a display.
  }
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
  std::cerr << "\r\033[K" << std::flush;
}

void ProgressLine::run() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kInterval, [this] { return done_; })) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cerr << "\r" << progress_text(progress_.done, progress_.total, seconds.count()) << "\033[K"
              << std::flush;
  }
}

}  // namespace reshardfs
