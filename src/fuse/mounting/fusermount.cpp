// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/fusermount.h"

#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/read_write.h"
#include "base/process/child_end.h"

namespace reshardfs {
namespace {

constexpr const char* kProgram = "fusermount3";

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
  const pid_t pid = spawn(arguments, standard_error.writer.get());
  standard_error.writer = Descriptor();
  CommandResult result;
  static_cast<void>(read_to_end(standard_error.reader.get(), result.messages));
  result.exit_code = exit_code_of(pid);
  return result;
}

bool detach_mount(const std::filesystem::path& mountpoint) {
  if (::umount2(mountpoint.c_str(), MNT_DETACH) == 0) return true;
  return run_fusermount({"-u", "-z", "--", mountpoint}).exit_code == 0;
}

}  // namespace reshardfs
