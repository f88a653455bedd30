// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/fusermount.h"

#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/read_write.h"
#include "base/process/child_end.h"
#include "base/process/spawn.h"

namespace reshardfs {
namespace {

constexpr const char* kProgram = "fusermount3";

/// @throws Error kIo
pid_t start(const std::vector<std::string>& arguments, int standard_error) {
  ProgramRun run{
      .program = kProgram, .words = {kProgram}, .descriptors = {{standard_error, STDERR_FILENO}}};
  run.words.insert(run.words.end(), arguments.begin(), arguments.end());
  const Spawned spawned = spawn(run);
  if (spawned.error != 0) {
    throw io_error("run it", kProgram, spawned.error).hint("install the package fuse3");
  }
  return spawned.process;
}

int exit_code_of(pid_t pid) {
  const int status = wait_for_end(pid, "wait for it", kProgram);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

CommandResult run_fusermount(const std::vector<std::string>& arguments) {
  Pipe standard_error;
  const pid_t pid = start(arguments, standard_error.writer.get());
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
