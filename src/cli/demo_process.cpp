// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_process.h"

#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "reshardfs/error.h"

#include "base/process/child_process.h"
#include "cli/app.h"

namespace reshardfs {

int run_self(const std::vector<std::string>& arguments) {
  constexpr const char* kSelf = "/proc/self/exe";
  ProgramRun run{.program = kSelf, .words = {"reshardfs"}};
  run.words.insert(run.words.end(), arguments.begin(), arguments.end());
  const Spawned spawned = spawn(run);
  if (spawned.error != 0) throw io_error("start reshardfs", kSelf, spawned.error);
  const int status = wait_for_end(spawned.process, "wait for reshardfs", kSelf);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitIo;
}

std::filesystem::path make_temporary_directory(const std::string& prefix) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) {
    throw Error(ErrorKind::kIo, "no directory for temporary files: " + error.message())
        .hint("set TMPDIR to one");
  }
  std::string name = (parent / (prefix + "XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) throw io_error("make a directory", name, errno);
  return name;
}

}  // namespace reshardfs
