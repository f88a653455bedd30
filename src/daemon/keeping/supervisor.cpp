// SPDX-License-Identifier: Apache-2.0
#include "daemon/keeping/supervisor.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/posix/descriptor_message.h"
#include "base/posix/mount_table.h"
#include "base/posix/poll_until.h"
#include "base/process/resource_limits.h"
#include "daemon/handover/handover.h"
#include "daemon/handover/memory_record.h"
#include "daemon/keeping/reaper.h"
#include "daemon/process/caller.h"
#include "daemon/process/other_process.h"
#include "daemon/process/signal_guard.h"
#include "fuse/event_log.h"
#include "fuse/mounting/fuse_descriptor.h"
#include "fuse/mounting/unmount.h"
#include "fuse/wake_pipe.h"

namespace reshardfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitIo = 3;
constexpr std::size_t kMostWord = 256;
/// Between a process that serves a mount and its supervisor.
constexpr const char* kKeep = "keep";
constexpr const char* kRelease = "release";

/// Children whose parent ends become this process's.
void inherit_children() noexcept {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/// What is kept of the mount.
struct Kept {
  Descriptor fuse;
  Descriptor requests;
  MemoryRecord state;
};

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options)
      : options_(options), signals_(events_, Hangup::kEvent, {.reload = true, .children = true}) {
    inherit_children();
  }

  /// @return in the child the connection; in this process nothing.
  std::optional<Descriptor> start_first() {
    auto [own, its] = message_sockets();
    const pid_t supervisor = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) {
      throw io_error("start a process for the mount", "", errno)
          .hint(limit_hint(Resource::kThreads));
    }
    if (child == 0) {
      end_with(supervisor);
      return std::move(its);
    }
    reaper_.set_started(child);
    connection_ = std::move(own);
    return std::nullopt;
  }

  int run() {
    for (;;) {
      std::array<pollfd, 3> polls{{{events_.read_end(), POLLIN, 0},
                                   {connection_.get(), POLLIN, 0},
                                   {talk_ ? talk_->get() : -1, POLLIN, 0}}};
      poll_until(polls, kForever);
      // First what those that may have ended have said before.
      if (polls[1].revents != 0) hear();
      if (polls[2].revents != 0) talk();
      if (polls[0].revents == 0) continue;
      const auto event = events_.wait_for(std::chrono::milliseconds(0));
      if (!event) continue;
      if (*event == Event::kHangup && !was_live_) {
        Reaper::pass_on(SIGHUP);  // it ends the command, which does not serve a mount yet
        continue;
      }
      if (!reaper_.take(*event)) continue;
      const bool is_alone = reaper_.reap();
      while (connection_.get() >= 0 && hear()) {
      }
      if (!is_alone && !end_useless()) continue;
      if (!go_on()) return exit_code_.value_or(reaper_.exit_code());
    }
  }

 private:
  /// A message of the process that serves the mount. @return whether there was one.
  bool hear() {
    auto message = receive_message(connection_.get(), kMostWord);
    if (!message) return false;
    if (message->is_end) {
      connection_ = Descriptor(-1);
      return false;
    }
    if (message->text == kRelease) kept_.reset();
    if (message->text == kKeep && message->descriptors.size() == 3) {
      auto& got = message->descriptors;
      const bool first = !std::exchange(was_live_, true);
      kept_.emplace(Kept{std::move(got[0]), std::move(got[1]), MemoryRecord(std::move(got[2]))});
      // From here on the process that serves it takes care of the command's end.
      if (first) outlive_parent();
      if (first && options_.on_live) options_.on_live();
      send_message(connection_.get(), kKeep, {});
      reaper_.pass_on_waiting();
    }
    return true;
  }

  /// A process that was to take the mount over from one that has crashed may never end by itself:
  /// it may be stopped, or wait for its source. Ends all that this process has inherited once none
  /// of them serves the mount: whoever does has the connection, or at least the mount, which
  /// programs have alone that do not know of the connection.
  /// @return whether it is certain that none will.
  bool end_useless() noexcept {
    if (!kept_ || connection_.get() >= 0 || reaper_.started() != 0) return false;
    const auto may_serve = [this](pid_t process) {
      return may_have_open(process, kept_->fuse.get());
    };
    try {
      const std::vector<pid_t> left = descendants_of(::getpid());
      if (left.empty() || std::any_of(left.begin(), left.end(), may_serve)) return false;
      for (const pid_t process : left) ::kill(process, SIGKILL);
      // If one has got the mount just before, it is waited for: it may have taken requests.
      return std::none_of(left.begin(), left.end(), may_serve);
    } catch (const std::exception&) {
      return false;  // no memory: their end is waited for
    }
  }

  /// Call this when no process serves the mount. @return whether one will.
  bool go_on() {
    talk_.reset();
    if (!kept_ || has_ended(kept_->fuse.get())) return false;
    if (reaper_.told_to_end()) {
      exit_code_ = EXIT_SUCCESS;
      return give_up();
    }
    if (refused_) {
      exit_code_ = kExitIo;
      return give_up();
    }
    constexpr std::chrono::minutes kMinute{1};
    const auto now = Clock::now();
    while (!crashes_.empty() && crashes_.front() < now - kMinute) crashes_.pop_front();
    crashes_.push_back(now);
    if (crashes_.size() > options_.crash_limit) {
      log_error(LogEvent::kCrashLimit,
                "the process of the mount has crashed {} times within a minute", crashes_.size());
      exit_code_ = kExitIo;
      return give_up();
    }
    try {
      log_warning(LogEvent::kProcessCrashed,
                  "the process of the mount has ended (signal {}); another one takes over",
                  reaper_.signal());
      auto [own, its] = message_sockets();
      reaper_.set_started(start_successor(options_.start, its));
      talk_.emplace(std::move(own));
      return true;
    } catch (const std::exception& error) {
      log_error(LogEvent::kTakeOverFailed, "cannot start another process for the mount: {}",
                error.what());
      exit_code_ = kExitIo;
      return give_up();
    }
  }

  /// The part of the process that has crashed in the hand-over.
  void talk() {
    std::optional<HandoverMessage> message;
    try {
      message = talk_->receive(std::chrono::milliseconds(-1));
    } catch (const std::exception&) {
      // Its connection is broken, so it will end.
    }
    if (!message || !kept_) {
      talk_.reset();
      return;
    }
    switch (message->step) {
      case HandoverStep::kHello: {
        const std::string conflict = version_conflict(*message);
        if (!conflict.empty()) refuse(conflict);
        talk_->send({.step = conflict.empty() ? HandoverStep::kOffer : HandoverStep::kFailed,
                     .after_crash = true,
                     .text = conflict},
                    std::array{kept_->state.descriptor()});
        break;
      }
      case HandoverStep::kReady: {
        auto [own, its] = message_sockets();
        connection_ = std::move(own);
        talk_->send({.step = HandoverStep::kMount, .text = "fuse requests keeper"},
                    std::array{kept_->fuse.get(), kept_->requests.get(), its.get()});
        break;
      }
      case HandoverStep::kFailed:
        refuse(message->text);
        break;
      default:
        talk_.reset();
    }
  }

  void refuse(const std::string& why) {
    refused_ = true;
    log_error(LogEvent::kTakeOverFailed, "the new process cannot take over the mount: {}", why);
  }

  /// Takes the mount away. @return false.
  bool give_up() {
    std::optional<HandoverState> state;
    try {
      state = decode_state(kept_->state.read());
    } catch (const std::exception&) {
      // What a process of another version has written: it stays to be unmounted by hand.
    }
    // Close the connection first: others wait for that.
    kept_.reset();
    if (!state || !state->mount) return false;
    try {
      if (const auto mount = found_again(*state->mount)) detach_mount(mount->mountpoint);
    } catch (const std::exception& error) {
      log_warning(LogEvent::kMountLeft, "the mount may be left there: {}", error.what());
    }
    return false;
  }

  const SupervisorOptions& options_;
  const WakePipe events_;
  const SignalGuard signals_;
  Reaper reaper_;
  Descriptor connection_{-1};
  std::optional<Kept> kept_;
  std::optional<HandoverSocket> talk_;
  std::deque<Clock::time_point> crashes_;
  std::optional<int> exit_code_;
  bool was_live_ = false;
  bool refused_ = false;
};

}  // namespace

int supervise_mount(const SupervisorOptions& options,
                    const std::function<int(Descriptor connection)>& first) {
  std::optional<Descriptor> connection;
  {
    Supervisor supervisor(options);
    connection = supervisor.start_first();
    if (!connection) return supervisor.run();
    // The child: the supervisor's signal handlers go with the supervisor.
  }
  std::exit(first(std::move(*connection)));
}

int wait_for_successors(const WakePipe& events) noexcept {
  try {
    const SignalGuard signals(events, Hangup::kEvent, {.reload = true, .children = true});
    inherit_children();
    Reaper reaper;
    // One may have ended before.
    while (!reaper.reap()) {
      while (!reaper.take(events.wait())) {
      }
    }
    return reaper.exit_code();
  } catch (const std::exception&) {
    return kExitIo;
  }
}

void SupervisedKeeper::keep(int fuse, int requests, int state) noexcept {
  outlive_parent();  // the mount does as well
  send_message(connection_.get(), kKeep, std::array{fuse, requests, state});
  // Until it is kept; a supervisor that has ended keeps nothing.
  wait_readable(connection_.get(), kForever);
  try {
    static_cast<void>(receive_message(connection_.get(), kMostWord));
  } catch (const std::exception&) {
    // The supervisor has ended.
  }
}

void SupervisedKeeper::release() noexcept {
  send_message(connection_.get(), kRelease, {});
}

void SupervisedKeeper::take_connection(Descriptor connection) noexcept {
  connection_ = std::move(connection);
}

}  // namespace reshardfs
