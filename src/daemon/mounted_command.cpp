// SPDX-License-Identifier: Apache-2.0
#include "daemon/mounted_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/mount_table.h"
#include "base/posix/poll_until.h"
#include "base/text/shell_text.h"
#include "daemon/process/caller.h"
#include "daemon/process/log.h"
#include "fuse/mounting/own_namespaces.h"
#include "fuse/mounting/unmount.h"

namespace reshardfs {
namespace {

constexpr int kCannotRun = 126;
constexpr int kNoProgram = 127;
/// Those that reach the command, or stop a mount that is not ready.
constexpr std::array kHandedOn{SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1,
                               SIGUSR2, SIGALRM, SIGCONT, SIGWINCH};

/// While it exists, signals of this process arrive as data.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&taken_);
    ::sigaddset(&taken_, SIGCHLD);
    for (const int signal : kHandedOn) ::sigaddset(&taken_, signal);
    ::sigprocmask(SIG_BLOCK, &taken_, &before_);
    file_ = Descriptor(::signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!file_) throw io_error("wait for signals through", "a descriptor", errno);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  int file() const noexcept { return file_.get(); }
  const sigset_t& before() const noexcept { return before_; }
  struct Signal {
    int number = 0;
    bool is_of_terminal = false;  ///< which sends it to each process in its foreground
  };
  /// The next one; nothing if none has come.
  std::optional<Signal> next() noexcept {
    signalfd_siginfo info{};
    while (::read(file_.get(), &info, sizeof(info)) == sizeof(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number != SIGCHLD) return Signal{number, info.ssi_code > 0};
    }
    return std::nullopt;
  }

 private:
  sigset_t taken_{};
  sigset_t before_{};
  Descriptor file_;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class Job {
 public:
  explicit Job(const MountedCommand& job)
      : mountpoint_(std::filesystem::canonical(job.mountpoint)),
        mount_words_(job.mount),
        command_words_(job.command) {
    mount_words_.insert(mount_words_.begin(), "reshardfs");
  }

  int run() {
    if (!may_mount_plainly()) {
      enter_own_namespaces();
      is_own_ = true;
    }
    mounts_ = Descriptor(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
    if (!mounts_) throw io_error("open", "/proc/self/mountinfo", errno);
    if (const auto other = mount_at(mountpoint_)) covered_ = other->id;
    start_mount();
    if (!wait_until_ready()) return mount_code_;
    start_command();
    wait_for_command();
    end_mount();
    return command_code_;
  }

 private:
  void start_mount() {
    const std::vector<char*> words = pointers(mount_words_);
    const std::string beside = shell_line(command_words_);
    // The output is the command's alone.
    const Descriptor nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!nothing) throw io_error("open", "/dev/null", errno);
    mount_ = ::fork();
    if (mount_ < 0) throw io_error("start", "reshardfs mount", errno);
    if (mount_ > 0) return;
    ::sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
    ::setsid();  // Ctrl-C is for the command
    if (::dup2(nothing.get(), STDOUT_FILENO) < 0) ::_exit(kCannotRun);
    // The service manager waits for this process, and does not know that one.
    ::unsetenv("NOTIFY_SOCKET");
    ::setenv(kBesideCommand, beside.c_str(), 1);
    end_with(self_);
    ::execv("/proc/self/exe", words.data());
    ::_exit(kCannotRun);
  }

  /// @return false if it has ended, or was stopped: then it has ended, too.
  bool wait_until_ready() {
    while (mount_ > 0) {
      wait();
      while (const auto signal = signals_.next()) {
        if (signal->number != SIGCONT && signal->number != SIGWINCH) stop_mount(signal->number);
      }
      if (stop_ == 0 && is_mounted()) return true;
      take_ended();
    }
    if (stop_ != 0) mount_code_ = 128 + stop_;
    return false;
  }

  void stop_mount(int signal) {
    stop_ = signal;
    if (mount_ > 0) ::kill(mount_, kCallerGoneSignal);
  }

  /// Until a signal has come, or mounts have changed.
  void wait() const {
    std::array<pollfd, 2> files{{{mounts_.get(), POLLPRI, 0}, {signals_.file(), POLLIN, 0}}};
    poll_until(files, kForever);
  }

  /// What is wrong with the source is told before it is. Reads wait until the mount answers them.
  bool is_mounted() const {
    const auto mount = mount_at(mountpoint_);
    return mount && is_reshardfs(*mount) && mount->id != covered_;
  }

  void start_command() {
    const std::vector<char*> words = pointers(command_words_);
    const uid_t user = user_;
    const gid_t group = group_;
    command_ = ::fork();
    if (command_ < 0) throw io_error("start", command_words_.front(), errno);
    if (command_ > 0) return;
    if (is_own_) {
      if (const int error = map_back(user, group)) {
        complain("cannot give the command its user again: " + std::string(std::strerror(error)));
        ::_exit(kCannotRun);
      }
    }
    end_with(self_, SIGKILL);
    ::sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
    ::execvp(words.front(), words.data());
    const int error = errno;
    complain(command_words_.front() + ": " + std::strerror(error));
    ::_exit(error == ENOENT ? kNoProgram : kCannotRun);
  }

  void wait_for_command() {
    while (command_ > 0) {
      wait();
      while (const auto signal = signals_.next()) {
        if (!signal->is_of_terminal) ::kill(command_, signal->number);
      }
      take_ended();
    }
  }

  void take_ended() {
    int status = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
      if (WIFSTOPPED(status)) {
        // A shell waits for this process, and continues all of the job.
        if (child == command_) ::raise(SIGSTOP);
      } else if (child == command_) {
        command_ = -1;
        command_code_ = code_of(status);
      } else if (child == mount_) {
        mount_ = -1;
        mount_code_ = code_of(status);
      }
    }
  }

  /// A process that was killed leaves the mount, and one that has handed it over leaves it served.
  void end_mount() {
    const bool was_there = mount_ > 0;
    stop_mount(SIGTERM);
    while (mount_ > 0) {
      wait();
      // A signal during the wait ends it at once.
      while (const auto signal = signals_.next()) stop_mount(signal->number);
      take_ended();
    }
    try {
      const bool is_left = is_mounted();
      // Threads that end late hide until now that it was killed before.
      if (mount_code_ != 0 || (!was_there && !is_left)) {
        complain("the mount has ended before the command");
      }
      if (is_left) unmount(mountpoint_);
    } catch (const Error& error) {
      complain(error.what());
    }
  }

  const std::filesystem::path mountpoint_;
  std::vector<std::string> mount_words_;
  std::vector<std::string> command_words_;
  pid_t self_ = ::getpid();
  uid_t user_ = ::geteuid();
  gid_t group_ = ::getegid();
  Descriptor mounts_;         ///< the kernel's list, for its changes
  std::int64_t covered_ = 0;  ///< what was mounted there before; 0: nothing
  Signals signals_;
  bool is_own_ = false;  ///< whether the namespaces are
  pid_t mount_ = -1;
  pid_t command_ = -1;
  int mount_code_ = 0;
  int command_code_ = 0;
  int stop_ = 0;
};

}  // namespace

int run_mounted(const MountedCommand& job) {
  return Job(job).run();
}

}  // namespace reshardfs
