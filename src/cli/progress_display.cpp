// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <iostream>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "cli/messages.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kTerminalInterval = 100ms;
constexpr auto kLineInterval = 10s;

std::size_t terminal_columns() {
  struct winsize size {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

std::string progress_text(const ExportProgress::Values& values, double seconds,
                          std::size_t columns) {
  // Less of a name says nothing.
  constexpr std::size_t kShortestName = 10;
  const auto done = static_cast<double>(values.bytes);
  const auto total = static_cast<double>(values.total_bytes);
  std::string text =
      fmt::format("{} {}/{} ({:.0f}%)", values.phase, human_bytes(values.bytes),
                  human_bytes(values.total_bytes), total > 0 ? 100 * done / total : 0);
  if (values.bytes > 0 && seconds > 0) {
    const double rate = done / seconds;
    text += fmt::format(", {}/s", human_bytes(static_cast<std::uint64_t>(rate)));
    // Before that it is guessing.
    if (seconds >= 1) {
      const double left = std::min(std::max(0.0, total - done) / rate, 1e9);
      text += fmt::format(", {} left", duration_text(static_cast<std::uint64_t>(left)));
    }
  }
  if (columns == 0) {
    text += fmt::format(", {} of {} files", values.files, values.total_files);
  }
  if (values.current.empty()) return text;
  const std::string name = printable(values.current);
  if (columns == 0) return text + ", " + name;
  const std::size_t used = text_width(text) + 2;
  if (used + kShortestName <= columns) return text + ", " + shortened(name, columns - used);
  return shortened(text, columns);
}

ProgressDisplay::ProgressDisplay(const ExportProgress& progress, bool quiet)
    : progress_(progress), terminal_(::isatty(STDERR_FILENO) == 1) {
  if (quiet) return;
  try {
    thread_ = std::jthread([this] { run(); });
  } catch (const std::exception&) {
    // The work is done without a display.
  }
}

ProgressDisplay::~ProgressDisplay() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (line_is_there_) std::cerr << "\r\x1b[K" << std::flush;
}

void ProgressDisplay::clear() {
  const std::lock_guard lock(mutex_);
  if (line_is_there_) std::cerr << "\r\x1b[K" << std::flush;
  line_is_there_ = false;
}

void ProgressDisplay::run() {
  std::string phase;
  auto begun = Clock::now();
  const bool often = terminal_ || has_listener();
  const Clock::duration interval = often ? Clock::duration(kTerminalInterval) : kLineInterval;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval, [this] { return ended_; })) {
    const ExportProgress::Values values = progress_.values();
    if (values.phase.empty()) continue;
    const auto now = Clock::now();
    if (values.phase != phase) begun = now - interval;
    phase = values.phase;
    show(values, std::chrono::duration<double>(now - begun).count());
  }
  // Where it has come to in the end.
  if (has_listener()) tell_progress(progress_.values());
}

void ProgressDisplay::show(const ExportProgress::Values& values, double seconds) {
  if (has_listener()) return tell_progress(values);
  if (!terminal_) {
    std::cerr << "reshardfs: " + progress_text(values, seconds, 0) + "\n" << std::flush;
    return;
  }
  // One column stays free: some terminals break the line when the last one is taken.
  const std::size_t columns = std::max<std::size_t>(2, terminal_columns()) - 1;
  std::cerr << "\r\x1b[K" + progress_text(values, seconds, columns) << std::flush;
  line_is_there_ = true;
}

}  // namespace reshardfs
