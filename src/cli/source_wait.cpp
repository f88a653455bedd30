// SPDX-License-Identifier: Apache-2.0
#include "cli/source_wait.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/conversion.h"
#include "reshardfs/error.h"

#include "base/text/url_path.h"
#include "checkpoint/series/step.h"
#include "cli/words/conversion_words.h"
#include "cli/words/shared_words.h"
#include "conversion/stated_model/model_numbers.h"
#include "daemon/keeping/service_manager.h"
#include "daemon/mount_tree.h"
#include "daemon/outage.h"
#include "daemon/status/bounded_task.h"
#include "fuse/event_log.h"
#include "fuse/mounting/mountpoint.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

using std::chrono::seconds;

constexpr seconds kShortestPause{1};
constexpr seconds kLongestPause{10};
/// How often somebody is told that it still takes its time.
constexpr seconds kSilence{10};
/// For what follows the wait: the mount opens all files again.
constexpr seconds kTimeToOpen{900};

/// Why a mount cannot be made yet.
struct Obstacle {
  bool may_end = true;  ///< without another command line
  std::string message;
};

std::optional<Obstacle> obstacle_of(const std::string& text) {
  if (text.empty()) return {};
  return Obstacle{text.front() == '1', text.substr(1)};
}

std::string text_of(const Obstacle& obstacle) {
  return (obstacle.may_end ? '1' : '0') + obstacle.message;
}

/// A wrong mount point is reported at once, because waiting does not correct it.
void require_mountpoint(const MountArguments& arguments) {
  try {
    check_mountpoint(arguments.mountpoint, absolute_source(arguments.source), arguments.nonempty);
  } catch (const Error& error) {
    if (error.need() != Need::kMountpoint) throw;
    throw Error(ErrorKind::kUsage, error.what());
  }
}

/// A mount that need not wait shows them with a warning.
void require_whole_files(const Conversion& conversion) {
  for (const std::string& warning : conversion.warnings()) {
    if (warning.find(kEndsEarly) == std::string::npos) continue;
    throw Error(ErrorKind::kBadInput, warning);
  }
}

/// All that a mount checks before it is live.
void open_all(const MountArguments& arguments) {
  if (!arguments.fuse_socket) require_mountpoint(arguments);
  const ConversionOptions options = conversion_options(arguments.given);
  if (options.source.step == kAllSteps) {
    all_steps_tree(options);
  } else {
    const Conversion conversion = Conversion::open(options);
    require_whole_files(conversion);
    conversion_tree(conversion);
  }
}

/// For a URL: whether its server answers. What it answers is told by the mount.
void ask_server(const MountArguments& arguments) {
  apply_storage(arguments.given);
  try {
    static_cast<void>(path_kind(absolute_source(arguments.source)));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo && error.os_error() != EACCES) throw;
  }
}

/// Whether waiting may help: files of a source that grows may be anything before they are whole.
bool may_end(const Error& error, const std::filesystem::path& source) {
  const ErrorKind kind = error.kind();
  return kind != ErrorKind::kUsage && kind != ErrorKind::kInternal &&
         (kind != ErrorKind::kUnsupported || is_of_source(error, source));
}

/// @param attempt throws what is in the way. In the child process.
TaskResult result_of(const MountArguments& arguments, const std::function<void()>& attempt) {
  // The child has neither the log nor its descriptor.
  silence_log();
  try {
    attempt();
    return {};
  } catch (const Error& error) {
    return {.text = text_of({may_end(error, absolute_location(arguments.source)), error.what()})};
  } catch (const std::exception& error) {  // of <filesystem>
    return {.text = text_of({true, error.what()})};
  }
}

class Wait {
 public:
  Wait(const MountArguments& arguments, std::function<void()> attempt)
      : arguments_(arguments),
        shown_(printable(shown_location(arguments.source))),
        limit_(arguments.wait_for_source),
        end_(BoundedTask::Clock::now() + limit_.value_or(seconds(0))),
        attempt_(std::move(attempt)) {}

  void run() {
    for (;;) {
      const BoundedTask::Clock::time_point begin = BoundedTask::Clock::now();
      const auto obstacle = try_once();
      if (!obstacle) break;
      if (!obstacle->may_end) break;  // the mount itself says what is wrong
      tell(obstacle->message);
      const BoundedTask::Clock::time_point now = BoundedTask::Clock::now();
      if (limit_ && now >= end_) give_up(obstacle->message);
      // Slow checks do not run each time, but again at the end.
      auto pause = std::clamp<BoundedTask::Clock::duration>(2 * (now - begin), kShortestPause,
                                                            kLongestPause);
      if (limit_) pause = std::min(pause, end_ - now);
      std::this_thread::sleep_for(pause);
    }
    if (has_told_) extend(kTimeToOpen);
  }

 private:
  std::optional<Obstacle> try_once() {
    BoundedTask task([this] { return result_of(arguments_, attempt_); });
    // The first attempt may find all that is there although there is no time to wait.
    const BoundedTask::Clock::time_point last =
        std::max(end_, BoundedTask::Clock::now() + kSilence);
    const std::string silent = shown_ + ": no answer yet";
    for (;;) {
      BoundedTask::Clock::time_point until = BoundedTask::Clock::now() + kSilence;
      if (limit_) until = std::min(until, last);
      const auto result = task.wait_until(until);
      if (result && result->error == 0) return obstacle_of(result->text);
      if (task.has_ended()) {
        return Obstacle{true, shown_ + ": the process that looked at it was ended"};
      }
      tell(silent);
      if (limit_ && BoundedTask::Clock::now() >= last) give_up(silent);
    }
  }

  /// Only what is new goes to the log.
  void tell(const std::string& message) {
    extend(2 * kLongestPause + kSilence);
    if (message == told_) return;
    told_ = message;
    has_told_ = true;
    log_warning(LogEvent::kSourceAwaited, "{}; waiting{}", message,
                limit_ ? fmt::format(", at most {} s in all", limit_->count()) : "");
    notify_service_manager("STATUS=waiting: " + message);
  }

  /// A time that the user chose outranks the manager's limit for a start.
  void extend(seconds time) const {
    if (!limit_) return;
    notify_service_manager(
        fmt::format("EXTEND_TIMEOUT_USEC={}", std::chrono::microseconds(time).count()));
  }

  [[noreturn]] void give_up(const std::string& message) const {
    throw Error(ErrorKind::kIo,
                fmt::format("waited {} s for the source in vain: {}", limit_->count(), message));
  }

  const MountArguments& arguments_;
  const std::string shown_;
  const std::optional<seconds> limit_;
  const BoundedTask::Clock::time_point end_;
  const std::function<void()> attempt_;
  std::string told_;
  bool has_told_ = false;
};

/// A file system that is mounted late.
void wait_for_path(const std::filesystem::path& source) {
  if (path_kind(source) != PathKind::kMissing) return;
  log_warning(LogEvent::kSourceAwaited, "{}: not there yet; waiting for it",
              printable(source.string()));
  notify_service_manager("STATUS=waiting for " + printable(source.string()));
  while (path_kind(source) == PathKind::kMissing) std::this_thread::sleep_for(kShortestPause);
}

}  // namespace

void wait_for_source(const MountArguments& arguments) {
  if (arguments.check_only) return;
  const bool is_service = arguments.foreground && has_service_manager();
  if (!arguments.wait_for_source && !is_service) return;
  arguments.log.apply();
  if (arguments.wait_for_source) {
    Wait(arguments, [&] { open_all(arguments); }).run();
  } else if (is_url(arguments.source)) {
    Wait(arguments, [&] { ask_server(arguments); }).run();
  } else {
    wait_for_path(absolute_source(arguments.source));
  }
}

}  // namespace reshardfs
