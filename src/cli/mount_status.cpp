// SPDX-License-Identifier: Apache-2.0
#include "cli/mount_status.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include "reshardfs/error.h"

#include "cli/bounded_task.h"

namespace reshardfs {
namespace {

/// A live mount answers in milliseconds, even one whose source is slow.
constexpr std::chrono::milliseconds kPatience{2000};

/// All of a file whose size nobody knows before it is read.
TaskResult read_to_the_end(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {errno, ""};
  TaskResult result;
  std::array<char, 64 << 10> buffer{};
  for (;;) {
    const ssize_t count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) result.error = errno;
    if (count <= 0) break;
    result.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(file);
  return result;
}

MountStatus with_result(MountEntry mount, const std::optional<TaskResult>& result) {
  MountStatus status{
      .mount = std::move(mount), .state = MountState::kStalled, .error = 0, .json = {}};
  if (!result) return status;
  status.error = result->error;
  if (result->error == ENOTCONN || result->error == ECONNABORTED) {
    status.state = MountState::kDead;
    return status;
  }
  auto json = nlohmann::ordered_json::parse(result->text, nullptr, /*allow_exceptions=*/false);
  const bool good = result->error == 0 && json.is_object();
  status.state = good ? MountState::kLive : MountState::kUnreadable;
  if (good) status.json = std::move(json);
  return status;
}

}  // namespace

std::vector<MountStatus> mount_statuses(const std::vector<MountEntry>& mounts) {
  std::vector<BoundedTask> tasks;
  for (const MountEntry& mount : mounts) {
    tasks.emplace_back([&mount] {
      return read_to_the_end(std::filesystem::path(mount.mountpoint) / ".reshardfs/status.json");
    });
  }
  const auto deadline = BoundedTask::Clock::now() + kPatience;
  std::vector<MountStatus> statuses;
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    statuses.push_back(with_result(mounts[i], tasks[i].wait_until(deadline)));
  }
  return statuses;
}

MountEntry bounded_find_mount(const std::string& path) {
  BoundedTask task([&path] {
    const auto found = find_mount(path);
    return TaskResult{0, found ? found->mountpoint : std::string()};
  });
  const auto result = task.wait_until(BoundedTask::Clock::now() + kPatience);
  if (!result) {
    throw Error(ErrorKind::kIo, "this leads through a mount that does not answer")
        .in_file(path)
        .hint("name the mount point itself");
  }
  const auto mount = result->text.empty() ? std::nullopt : mount_at(result->text);
  if (mount && is_reshardfs(*mount)) return *mount;
  throw Error(ErrorKind::kUsage, "no checkpoint is mounted here")
      .in_file(path)
      .hint("'reshardfs status' lists where one is");
}

}  // namespace reshardfs
