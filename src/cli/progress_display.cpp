// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
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

/// Of work without a phase.
std::string plain_text(const Progress::Values& values, double seconds) {
  // Both move while they are read.
  const std::uint64_t total = std::max(values.bytes, values.total_bytes);
  const double rate = seconds > 0 ? static_cast<double>(values.bytes) / seconds : 0;
  std::string text = fmt::format("{} of {}", human_bytes(values.bytes), human_bytes(total));
  if (rate < 1) return text;
  const double left = static_cast<double>(total - values.bytes) / rate;
  return text + fmt::format(", {}/s, {} left", human_bytes(static_cast<std::uint64_t>(rate)),
                            duration_text(static_cast<std::uint64_t>(std::llround(left))));
}

}  // namespace

std::string pace_text(std::uint64_t bytes, double seconds) {
  std::string text = fmt::format("{:.1f} s", seconds);
  if (bytes == 0 || seconds <= 0) return text;
  const double rate = static_cast<double>(bytes) / seconds;
  return text + fmt::format(" ({}/s)", human_bytes(static_cast<std::uint64_t>(rate)));
}

std::string progress_text(const Progress::Values& values, double seconds, std::size_t columns) {
  if (values.phase.empty()) {
    const std::string text = plain_text(values, seconds);
    return columns == 0 ? text : shortened(text, columns);
  }
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

ProgressDisplay::ProgressDisplay(const Progress& progress, bool quiet, ShowProgress show)
    : progress_(progress), show_(show), quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1) {
  if (quiet || (show == ShowProgress::kOnTerminal && !terminal_)) return;
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
  if (quiet_ || has_listener() || std::uncaught_exceptions() != exceptions_) return;
  try {
    sum_up();
  } catch (const std::exception&) {
    // Out of memory: the work is done.
  }
}

void ProgressDisplay::sum_up() const {
  const Clock::duration took = Clock::now() - begun_;
  const std::uint64_t bytes = progress_.values().bytes;
  if (!long_work_ || took < *long_work_ || bytes == 0) return;
  const double seconds = std::chrono::duration<double>(took).count();
  std::cerr << "reshardfs: " + human_bytes(bytes) + " read in " + pace_text(bytes, seconds) + "\n"
            << std::flush;
}

void ProgressDisplay::clear() {
  const std::lock_guard lock(mutex_);
  if (line_is_there_) std::cerr << "\r\x1b[K" << std::flush;
  line_is_there_ = false;
}

bool ProgressDisplay::tells() const noexcept {
  return show_ == ShowProgress::kEverywhere && has_listener();
}

void ProgressDisplay::run() {
  std::string phase;
  auto begun = Clock::now();
  const bool often = terminal_ || tells();
  const Clock::duration interval = often ? Clock::duration(kTerminalInterval) : kLineInterval;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval, [this] { return ended_; })) {
    const Progress::Values values = progress_.values();
    if (values.phase.empty() && show_ == ShowProgress::kEverywhere) continue;
    const auto now = Clock::now();
    if (values.phase != phase) begun = now - interval;
    phase = values.phase;
    show(values, std::chrono::duration<double>(now - begun).count());
  }
  // Where it has come to in the end.
  if (tells()) tell_progress(progress_.values());
}

void ProgressDisplay::show(const Progress::Values& values, double seconds) {
  if (tells()) return tell_progress(values);
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
