// SPDX-License-Identifier: Apache-2.0
#include "cli/mount_status.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "cli/bounded_task.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

/// A live mount answers in milliseconds, even one whose source is slow.
constexpr std::chrono::milliseconds kPatience{2000};

/// More than any mount has to say; what calls itself one may have no end.
constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
/// Objects inside each other in it are few. What prints it calls itself for each.
constexpr int kDeepest = 32;

/// Whoever mounts something under this name may have put links there, or a pipe.
/// @return a descriptor, or -1 with errno.
int open_status(const std::filesystem::path& mountpoint) {
  constexpr int kNoLink = O_NOFOLLOW | O_CLOEXEC;
  // O_PATH: to open a directory for reading would be a request that a mount's source has to answer.
  const int directory = ::open((mountpoint / ".reshardfs").c_str(), O_PATH | O_DIRECTORY | kNoLink);
  if (directory < 0) return -1;
  const int file = ::openat(directory, "status.json", O_RDONLY | O_NONBLOCK | O_NOCTTY | kNoLink);
  const int failed = errno;
  ::close(directory);
  errno = failed;
  return file;
}

/// All of a file whose size nobody knows before it is read.
TaskResult read_status(const std::filesystem::path& mountpoint) {
  const int file = open_status(mountpoint);
  if (file < 0) return {errno, ""};
  TaskResult result;
  std::array<char, 16 << 10> buffer{};
  while (result.text.size() <= kMostBytes) {
    const ssize_t count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) result.error = errno;
    if (count <= 0) break;
    result.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (result.text.size() > kMostBytes) result = {EFBIG, ""};
  ::close(file);
  return result;
}

/// @return null if it is no JSON, or too deep.
Json parse(const std::string& text) {
  bool too_deep = false;
  Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, const Json&) {
        too_deep = too_deep || depth > kDeepest;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  return too_deep || json.is_discarded() ? Json() : json;
}

bool is_number_or_absent(const Json& object, const char* key) {
  return !object.contains(key) || object.at(key).is_number_unsigned();
}

/// Whether what is shown of a status has the types that it must have.
bool is_status(const Json& json) {
  if (!json.is_object() || !is_number_or_absent(json, "uptime_seconds")) return false;
  if (!json.contains("activity")) return true;
  const Json& activity = json.at("activity");
  if (!activity.is_object() || !is_number_or_absent(activity, "bytes_delivered")) return false;
  if (!activity.contains("read_errors")) return true;
  const Json& errors = activity.at("read_errors");
  return errors.is_object() && std::all_of(errors.begin(), errors.end(), [](const Json& count) {
           return count.is_number_unsigned();
         });
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
  Json json = result->error == 0 ? parse(result->text) : Json();
  const bool good = is_status(json);
  status.state = good ? MountState::kLive : MountState::kUnreadable;
  if (good) status.json = std::move(json);
  return status;
}

/// A mount that cannot be asked must not hide the others.
std::optional<BoundedTask> try_to_ask(const MountEntry& mount) {
  try {
    return BoundedTask([&mount] { return read_status(mount.mountpoint); });
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<MountStatus> mount_statuses(const std::vector<MountEntry>& mounts) {
  std::vector<std::optional<BoundedTask>> tasks;
  tasks.reserve(mounts.size());
  for (const MountEntry& mount : mounts) tasks.push_back(try_to_ask(mount));
  const auto deadline = BoundedTask::Clock::now() + kPatience;
  std::vector<MountStatus> statuses;
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const TaskResult no_process{EAGAIN, ""};
    statuses.push_back(
        with_result(mounts[i], tasks[i] ? tasks[i]->wait_until(deadline) : no_process));
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
