// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/mount_ready.h"

#include <linux/magic.h>
#include <sys/statfs.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "reshardfs/error.h"

#include "daemon/status/bounded_task.h"
#include "daemon/status/control_file.h"

namespace reshardfs {
namespace {

constexpr std::chrono::milliseconds kReadyPatience{2000};

/// As the file of a ready mount says it.
constexpr const char* kReady = "ready\n";

TaskResult ask(const std::string& path) {
  // A file in a directory that is not a mount is no answer.
  struct statfs statfs {};
  if (::statfs(path.c_str(), &statfs) != 0) return {errno, ""};
  if (statfs.f_type != FUSE_SUPER_MAGIC) return {ENODEV, ""};
  TaskResult result = read_control_file(path, "ready");
  // A mount of something else, or a directory in one.
  if (result.error == ENOENT || result.error == ENOTDIR) result.error = ENODEV;
  return result;
}

std::string reason(int error) {
  switch (error) {
    case ENODEV:
      return "no checkpoint is mounted here";
    case ENOTCONN:
    case ECONNABORTED:
      return "the process of the mount has ended";
    default:
      return std::strerror(error);
  }
}

std::string first_line(const std::string& text) {
  return printable(text.substr(0, text.find('\n')));
}

}  // namespace

Readiness mount_readiness(const std::string& path) {
  BoundedTask task([&path] { return ask(path); });
  const auto result = task.wait_until(BoundedTask::Clock::now() + kReadyPatience);
  if (!result) return {false, "it does not answer"};
  if (result->error != 0) return {false, reason(result->error)};
  if (result->text != kReady) return {false, first_line(result->text)};
  return {true, ""};
}

}  // namespace reshardfs
