// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_process.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "reshardfs/error.h"

#include "base/process/child_end.h"
#include "cli/app.h"

namespace reshardfs {

int run_self(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), "reshardfs");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv.data(), environ);
  if (failed != 0) throw io_error("start reshardfs", "/proc/self/exe", failed);
  const int status = wait_for_end(child, "wait for reshardfs", "/proc/self/exe");
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
