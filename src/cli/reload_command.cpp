// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "cli/app.h"
#include "cli/command.h"
#include "cli/mount_status.h"
#include "fuse/signals.h"
#include "storage/descriptor_pool.h"

namespace reshardfs {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct ReloadArguments {
  std::string mountpoint;
  unsigned timeout = 900;
  bool replace = false;
};

/// What the status of a mount says of its hand-overs.
struct Served {
  pid_t process = 0;
  std::string version{};
  std::uint64_t reloads = 0;
  std::string refusal{};
  bool is_replacing = false;  ///< the kernel does not know all of it yet
};

template <typename Value>
Value value_of(const Json& json, const char* key, const Value& otherwise) {
  const Json value = json.is_object() ? json.value<Json>(key, Json()) : Json();
  try {
    return value.get<Value>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}

Error cannot_reload(const MountEntry& mount, const std::string& what) {
  return Error(ErrorKind::kUnsupported, what).in_file(mount.mountpoint);
}

/// @throws Error if the mount does not say.
Served served_by(const MountStatus& status) {
  if (status.state != MountState::kLive) {
    throw Error(ErrorKind::kIo, "the mount does not say how it is")
        .in_file(status.mount.mountpoint)
        .hint("'reshardfs status " + status.mount.mountpoint + "' shows why");
  }
  const Json mount = status.json.value<Json>("mount", Json());
  if (!mount.is_object()) {
    throw cannot_reload(status.mount,
                        "the version of reshardfs that serves the mount cannot hand it over")
        .hint("unmount, and mount again");
  }
  std::error_code failed;
  const std::string own = std::filesystem::read_symlink("/proc/self/ns/pid", failed).string();
  if (value_of(mount, "pid_namespace", std::string()) != own) {
    throw cannot_reload(status.mount, "the process of the mount runs in another PID namespace")
        .hint("run the command in its container");
  }
  return {value_of(status.json, "pid", 0), value_of(mount, "version", std::string("?")),
          value_of(mount, "reloads", std::uint64_t{0}),
          value_of(mount, "reload_refused", std::string()), value_of(mount, "replacing", false)};
}

Served ask(const MountEntry& mount) {
  return served_by(mount_statuses({mount}).front());
}

/// Whether the process has a handler for the signal, which would end it otherwise.
bool handles(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigCgt:")) continue;
    return (std::stoull(line.substr(line.find(':') + 1), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

/// Also of one whose parent has not noticed yet.
bool has_ended(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:")) return line.find_first_of("ZX", 6) != std::string::npos;
  }
  return true;
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

/// @return false if the process has ended.
bool send_reload(const MountEntry& mount, pid_t process, bool replace) {
  // From here on the number is this process's, whatever ends meanwhile.
  const Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (pidfd.get() < 0 && errno == ESRCH) return false;
  if (pidfd.get() < 0 && errno != ENOSYS) {
    throw io_error("find the process of the mount, " + std::to_string(process), mount.mountpoint,
                   errno);
  }
  if (process <= 1 || !handles(process, SIGUSR2)) {
    if (process > 1 && has_ended(process)) return false;
    throw cannot_reload(mount, fmt::format("process {} does not take the signal", process));
  }
  siginfo_t signal = reload_signal(replace);
  const int failed =
      pidfd.get() < 0
          ? ::sigqueue(process, SIGUSR2, signal.si_value)
          : static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGUSR2, &signal, 0));
  if (failed != 0 && errno == ESRCH) return false;
  if (failed != 0) {
    throw io_error("signal the process of the mount, " + std::to_string(process), mount.mountpoint,
                   errno)
        .hint("run the command as the user who has mounted, or as root");
  }
  return true;
}

/// While one process goes on for another that was killed, nobody answers.
/// @param asked the process that has the request. @return nothing if its end is why nobody does.
std::optional<Served> ask_again(const MountEntry& mount, pid_t asked) {
  const MountStatus status = mount_statuses({mount}).front();
  if (status.state == MountState::kStalled && has_ended(asked)) return std::nullopt;
  return served_by(status);
}

int run_reload(const ReloadArguments& arguments) {
  constexpr std::chrono::milliseconds kLook{20};
  constexpr int kMostTries = 10;
  int tries = 0;
  const MountEntry mount = bounded_find_mount(arguments.mountpoint);
  Served before = ask(mount);
  pid_t asked = before.process;
  // Where that has ended already, the next one is asked below.
  static_cast<void>(send_reload(mount, asked, arguments.replace));
  const auto deadline = Clock::now() + std::chrono::seconds(arguments.timeout);
  for (;;) {
    std::this_thread::sleep_for(kLook);
    const std::optional<Served> answer = ask_again(mount, asked);
    const Served now = answer.value_or(Served{.process = asked, .reloads = before.reloads});
    if (now.process != asked && now.reloads == before.reloads) {
      // The process ended with the request, and another one goes on with the mount.
      asked = now.process;
      static_cast<void>(send_reload(mount, asked, arguments.replace));
      continue;
    }
    if (now.reloads > before.reloads && !now.is_replacing) {
      // Perhaps of a file that was open at that moment, as this command's own looks are.
      if (now.refusal.ends_with("; try again") && tries++ < kMostTries) {
        before = now;
        asked = now.process;
        static_cast<void>(send_reload(mount, asked, arguments.replace));
        continue;
      }
      if (!now.refusal.empty()) {
        throw Error(ErrorKind::kIo, "the mount stays with process " + std::to_string(now.process) +
                                        ": " + now.refusal)
            .in_file(mount.mountpoint);
      }
      std::cout << fmt::format("{}: process {} (reshardfs {}) now serves the mount\n",
                               printable(mount.mountpoint), now.process, printable(now.version));
      return kExitDone;
    }
    if (Clock::now() > deadline) {
      throw Error(ErrorKind::kIo,
                  fmt::format("the new process was not ready within {} seconds", arguments.timeout))
          .in_file(mount.mountpoint)
          .hint(answer ? "process " + std::to_string(now.process) +
                             " still serves the mount, and hands it over when the new one is ready"
                       : "the process that served the mount has ended; 'reshardfs status " +
                             mount.mountpoint + "' shows whether another one goes on with it");
    }
  }
}

}  // namespace

void add_reload_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<ReloadArguments>();
  CLI::App* command =
      app.add_subcommand("reload", "Upgrade or reconfigure a mount while it is in use");
  command
      ->add_option("MOUNTPOINT", arguments->mountpoint,
                   "A mount point, or with --config a mount's name")
      ->required();
  command->add_flag("--replace", arguments->replace,
                    "Show what the command line and the configuration file now describe, even if "
                    "it is something else: open files keep their contents");
  command->add_option("--timeout", arguments->timeout, "How long to wait for the new process")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 86400).description(""))
      ->capture_default_str()
      ->take_last();
  command->add_option("--config", "Look up MOUNTPOINT as a mount's name in a TOML file")
      ->type_name("FILE.toml");
  command->footer("Example:\n  reshardfs reload /mnt/tp4\n  reshardfs reload --replace /mnt/tp4");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_reload(*arguments); }; });
}

}  // namespace reshardfs
