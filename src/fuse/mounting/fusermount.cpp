// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/fusermount.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "reshardfs/error.h"

#include "base/process/child_end.h"

namespace reshardfs {
namespace {

constexpr const char* kProgram = "fusermount3";

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw io_error("make a pipe", "", errno);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends_[0]);
    close_write_end();
  }

  int write_end() const noexcept { return ends_[1]; }
  void close_write_end() noexcept {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

  std::string read_all() const {
    std::string text;
    std::array<char, 512> buffer{};
    for (;;) {
      const ssize_t count = ::read(ends_[0], buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return text;
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

/// @throws Error kIo
pid_t spawn(const std::vector<std::string>& arguments, int standard_error) {
  std::vector<char*> argv{const_cast<char*>(kProgram)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, standard_error, STDERR_FILENO);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, kProgram, &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw io_error("run it", kProgram, error).hint("install the package fuse3");
  }
  return pid;
}

int exit_code_of(pid_t pid) {
  const int status = wait_for_end(pid, "wait for it", kProgram);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

CommandResult run_fusermount(const std::vector<std::string>& arguments) {
  Pipe standard_error;
  const pid_t pid = spawn(arguments, standard_error.write_end());
  standard_error.close_write_end();
  CommandResult result;
  result.messages = standard_error.read_all();
  result.exit_code = exit_code_of(pid);
  return result;
}

bool detach_mount(const std::filesystem::path& mountpoint) {
  if (::umount2(mountpoint.c_str(), MNT_DETACH) == 0) return true;
  return run_fusermount({"-u", "-z", "--", mountpoint}).exit_code == 0;
}

}  // namespace reshardfs
