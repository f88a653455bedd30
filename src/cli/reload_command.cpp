// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "cli/app.h"
#include "cli/command.h"
#include "daemon/process/other_process.h"
#include "daemon/process/signal_guard.h"
#include "daemon/status/mount_status.h"
#include "daemon/status/reload_request.h"

namespace reshardfs {
namespace {

using Clock = std::chrono::steady_clock;

Error cannot_reload(const MountEntry& mount, const std::string& what) {
  return Error(ErrorKind::kUnsupported, what).in_file(mount.mountpoint);
}

/// @throws Error if the mount does not say.
Served served_by(const MountStatus& status) {
  if (status.state != MountState::kLive) {
    throw Error(ErrorKind::kIo, "the mount does not state its status")
        .in_file(status.mount.mountpoint)
        .hint("run: " + command_line("status", {status.mount.mountpoint}));
  }
  const JsonValue mount = status.json.value()["mount"];
  if (!mount.is_object()) {
    throw cannot_reload(status.mount,
                        "the version of reshardfs that serves the mount cannot hand it over")
        .hint("unmount, and mount again");
  }
  std::error_code failed;
  const std::string own = std::filesystem::read_symlink("/proc/self/ns/pid", failed).string();
  if (mount["pid_namespace"].text() != own) {
    throw cannot_reload(status.mount, "the process of the mount runs in another PID namespace")
        .hint("run the command in its container");
  }
  return served_of(status.json.value());
}

/// SIGUSR2 with a value, as sigqueue(3) sends it.
siginfo_t reload_signal(bool replace) noexcept {
  siginfo_t signal{};
  signal.si_signo = SIGUSR2;
  signal.si_code = SI_QUEUE;
  signal.si_pid = ::getpid();
  signal.si_uid = ::getuid();
  signal.si_value.sival_int = replace ? kReplaceValue : 0;
  return signal;
}

/// To a process that may have ended: then another one goes on with the mount, and is asked, or
/// none.
/// @return whether it could take the signal. One that has handed the mount over and is about to end
/// could not.
bool ask(const MountEntry& mount, pid_t process, bool replace) {
  // From here on the number is this process's, whatever ends meanwhile.
  const Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (pidfd.get() < 0 && errno == ESRCH) return true;
  if (pidfd.get() < 0 && errno != ENOSYS) {
    throw io_error("find the process of the mount, " + std::to_string(process), mount.mountpoint,
                   errno);
  }
  if (process <= 1 || !handles_signal(process, SIGUSR2)) {
    return process > 1 && has_process_ended(process);
  }
  siginfo_t signal = reload_signal(replace);
  const int failed =
      pidfd.get() < 0
          ? ::sigqueue(process, SIGUSR2, signal.si_value)
          : static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGUSR2, &signal, 0));
  if (failed != 0 && errno != ESRCH) {
    throw io_error("signal the process of the mount, " + std::to_string(process), mount.mountpoint,
                   errno)
        .hint("run the command as the user who has mounted, or as root");
  }
  return true;
}

/// Looks at a mount until a deadline.
class Looks {
 public:
  Looks(const MountEntry& mount, Clock::time_point deadline) : mount_(mount), deadline_(deadline) {}

  /// @return nothing if the mount does not answer: while one process takes over from another that
  /// has crashed, or if the process is stopped.
  std::optional<Served> next() {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    const auto patience = std::clamp(left, std::chrono::milliseconds(1), patience_);
    const MountStatus status = mount_statuses({mount_}, patience).front();
    if (status.state != MountState::kStalled) return served_by(status);
    patience_ *= 2;  // each look may leave a process that cannot be killed yet
    return std::nullopt;
  }

 private:
  const MountEntry& mount_;
  const Clock::time_point deadline_;
  std::chrono::milliseconds patience_ = kMountPatience;
};

Error not_in_time(const MountEntry& mount, unsigned timeout,
                  const std::optional<ReloadRequest>& request, const std::optional<Served>& last) {
  const std::string within = " within " + counted(timeout, "second");
  const std::string look = command_line("status", {mount.mountpoint}) + " shows ";
  const auto error = [&](const std::string& what) {
    return Error(ErrorKind::kIo, what + within).in_file(mount.mountpoint);
  };
  if (!request) return error("the mount did not answer").hint(look + "whether it does");
  if (!last) {
    return error("the new process was not ready")
        .hint(has_process_ended(request->asked())
                  ? "the process that served the mount has ended; " + look +
                        "whether another one goes on with it"
                  : fmt::format("process {} does not answer; ", request->asked()) + look +
                        "whether it does");
  }
  if (last->is_replacing) {
    return error(fmt::format("the kernel was not told of all changes by process {}", last->process))
        .hint("programs that read in the mount may hold it up; " + look + "it as replacing");
  }
  return error("the new process was not ready")
      .hint(fmt::format(
          "process {} still serves the mount, and hands it over when the new one is ready",
          last->process));
}

}  // namespace

int run_reload(const Given& given) {
  const auto timeout = given.number_as<unsigned>("timeout");
  const bool replace = given.flag("replace");
  constexpr std::chrono::milliseconds kPause{20};
  const auto deadline = Clock::now() + std::chrono::seconds(timeout);
  const MountEntry mount = bounded_find_mount(given.argument("MOUNTPOINT"));
  Looks looks(mount, deadline);
  std::optional<ReloadRequest> request;
  std::optional<pid_t> deaf;
  bool told = false;
  for (;;) {
    const std::optional<Served> now = looks.next();
    if (!now && !request && !std::exchange(told, true)) {
      complain(fmt::format("{}: the mount does not answer; waiting for up to {} (--timeout)",
                           printable(mount.mountpoint), counted(timeout, "second")));
    }
    auto step = ReloadRequest::Step::kWait;
    if (now && !request) {
      request.emplace(replace, *now);
      step = ReloadRequest::Step::kAsk;
    } else if (now) {
      step = request->next(*now);
      if (deaf == now->process) {
        throw cannot_reload(mount, fmt::format("process {} does not take the signal", *deaf));
      }
    }
    switch (step) {
      case ReloadRequest::Step::kAsk:
        if (!ask(mount, now->process, replace)) deaf = now->process;
        break;
      case ReloadRequest::Step::kDone:
        std::cout << fmt::format("{}: process {} (reshardfs {}) now serves the mount\n",
                                 printable(mount.mountpoint), now->process,
                                 printable(now->version));
        return kExitDone;
      case ReloadRequest::Step::kRefused:
        throw Error(ErrorKind::kIo,
                    fmt::format("the mount stays with process {}: {}", now->process, now->refusal))
            .in_file(mount.mountpoint);
      case ReloadRequest::Step::kCrashes:
        throw Error(ErrorKind::kIo,
                    fmt::format("the process of the mount has ended each time that it was asked; "
                                "the mount stays with process {}",
                                now->process))
            .in_file(mount.mountpoint)
            .hint("its log may show why");
      case ReloadRequest::Step::kWait:
        break;
    }
    if (Clock::now() >= deadline) throw not_in_time(mount, timeout, request, now);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace reshardfs
