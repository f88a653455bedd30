// SPDX-License-Identifier: Apache-2.0
#include "cli/warming.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/process/child_process.h"
#include "base/process/progress.h"
#include "base/process/resource_limits.h"
#include "base/text/text.h"
#include "cli/app.h"
#include "cli/progress_display.h"
#include "daemon/warm_files.h"

namespace reshardfs {
namespace {

// Pages of other programs may have displaced a few.
constexpr double kNearlyAll = 0.99;

void warn(const std::string& text) {
  std::cerr << "reshardfs: warning: " << text << "\n";
}

/// Says what the reading was good for, where the kernel tells.
void warn_of_missing_pages(const Warmed& warmed) {
  if (!warmed.cached || warmed.bytes == 0) return;
  if (*warmed.cached == 0) {
    warn(
        "the page cache of these files is empty: with --direct-io a mount has none, and with "
        "--passthrough its source's is used");
  } else if (static_cast<double>(*warmed.cached) < kNearlyAll * static_cast<double>(warmed.bytes)) {
    warn(fmt::format("only {} of {} stayed in the page cache: memory is short",
                     human_bytes(*warmed.cached), human_bytes(warmed.bytes)));
  }
}

/// Waits in a process of its own for the mount.
[[noreturn]] void run_when_live(int start, const std::vector<std::filesystem::path>& paths,
                                bool quiet) {
  const bool is_live = read_byte(start);
  ::close(start);
  if (!is_live) ::_exit(kExitDone);
  const int code = report_errors([&] { return warm_paths(paths, 0, quiet); }, complain);
  std::cout << std::flush;
  // What the process shares with the one that serves the mount is not to be undone twice.
  ::_exit(code);
}

}  // namespace

int warm_paths(const std::vector<std::filesystem::path>& paths, std::size_t threads, bool quiet) {
  const std::vector<FileToWarm> files = files_to_warm(paths);
  require_memory_for(files);
  Progress progress;
  const auto begin = std::chrono::steady_clock::now();
  const Warmed warmed = [&] {
    const ProgressDisplay display(progress, quiet);
    return warm_files(files, {.threads = threads, .progress = &progress});
  }();
  for (const std::string& failure : warmed.failures) complain(failure);
  warn_of_missing_pages(warmed);
  if (!warmed.failures.empty()) return kExitIo;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!quiet) {
    std::cout << fmt::format("read {}, {} in {}\n", counted(files.size(), "file"),
                             human_bytes(warmed.bytes), pace_text(warmed.bytes, took.count()));
  }
  return kExitDone;
}

WarmingProcess::WarmingProcess(std::vector<std::filesystem::path> paths, bool quiet) {
  Pipe pipe;
  start_ = std::move(pipe.writer);
  std::cout << std::flush;  // or the child would write the same output again
  const pid_t child = ::fork();
  if (child < 0) {
    throw io_error("start a process that reads files", "", errno)
        .hint(limit_hint(Resource::kThreads));
  }
  if (child == 0) {
    start_ = Descriptor();
    // Its parent is not this process, which would have to wait for it.
    const pid_t reader = ::fork();
    if (reader == 0) run_when_live(pipe.reader.get(), paths, quiet);
    ::_exit(reader < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
  }
  if (wait_for_end(child, "start a process that reads files", "") != 0) {
    throw Error(ErrorKind::kIo, "cannot start a process that reads files")
        .hint(limit_hint(Resource::kThreads));
  }
}

void WarmingProcess::begin() noexcept {
  if (!start_) return;
  const ssize_t written = ::write(start_.get(), "", 1);
  static_cast<void>(written);  // the process has been killed
  start_ = Descriptor();
}

}  // namespace reshardfs
