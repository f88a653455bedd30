// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/shell_text.h"
#include "cli/command.h"
#include "daemon/mounted_command.h"

namespace reshardfs {

int run_run(const Given& given) {
  MountedCommand job{.mountpoint = given.argument("MOUNTPOINT"),
                     .command = given.arguments_of("COMMAND")};
  if (!std::filesystem::is_directory(job.mountpoint)) {
    throw Error(ErrorKind::kMissing, "the mount point does not exist, or is no directory")
        .in_file(job.mountpoint)
        .hint("make it: " + shell_line({"mkdir", "-p", job.mountpoint}));
  }
  job.mount = {"mount", "--foreground"};
  for (const GivenOption& use : given.options) {
    for (std::string& word : typed_words(use)) job.mount.push_back(std::move(word));
  }
  job.mount.emplace_back("--");
  job.mount.push_back(given.argument("SOURCE"));
  job.mount.push_back(job.mountpoint);
  return run_mounted(job);
}

}  // namespace reshardfs
