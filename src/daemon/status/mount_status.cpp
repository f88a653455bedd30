// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/mount_status.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "daemon/status/bounded_task.h"
#include "daemon/status/control_file.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

/// Objects inside each other in it are few. What prints it calls itself for each.
constexpr int kDeepest = 32;

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

/// The name that a status gives of a source file that has changed; empty if none has.
std::string changed_file_of(const Json& json) {
  const Json change = json.is_object() ? json.value<Json>("source_changed", Json()) : Json();
  const Json file = change.is_object() ? change.value<Json>("file", Json()) : Json();
  return file.is_string() ? file.get<std::string>() : "";
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
  status.changed_file = changed_file_of(status.json);
  return status;
}

/// A mount that cannot be asked must not hide the others.
std::optional<BoundedTask> try_to_ask(const MountEntry& mount, const char* name) {
  try {
    return BoundedTask([&mount, name] { return read_control_file(mount.mountpoint, name); });
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::optional<BoundedTask>> ask_all(const std::vector<MountEntry>& mounts,
                                                const char* name) {
  std::vector<std::optional<BoundedTask>> tasks;
  tasks.reserve(mounts.size());
  for (const MountEntry& mount : mounts) tasks.push_back(try_to_ask(mount, name));
  return tasks;
}

}  // namespace

std::vector<MountStatus> examined_mounts(const std::vector<MountEntry>& mounts,
                                         std::chrono::milliseconds patience) {
  {
    // What they find out shows in their status.
    std::vector<std::optional<BoundedTask>> looks = ask_all(mounts, "ready");
    const auto deadline = BoundedTask::Clock::now() + patience / 2;
    for (std::optional<BoundedTask>& look : looks) {
      if (look) static_cast<void>(look->wait_until(deadline));
    }
  }
  return mount_statuses(mounts, patience);
}

std::vector<MountStatus> mount_statuses(const std::vector<MountEntry>& mounts,
                                        std::chrono::milliseconds patience) {
  std::vector<std::optional<BoundedTask>> tasks = ask_all(mounts, "status.json");
  const auto deadline = BoundedTask::Clock::now() + patience;
  std::vector<MountStatus> statuses;
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const TaskResult no_process{EAGAIN, ""};
    statuses.push_back(
        with_result(mounts[i], tasks[i] ? tasks[i]->wait_until(deadline) : no_process));
  }
  return statuses;
}

MountEntry bounded_find_mount(const std::string& path) {
  require_mount_path(path);
  BoundedTask task([&path] {
    const auto found = find_mount(path);
    return TaskResult{0, found ? found->mountpoint : std::string()};
  });
  const auto result = task.wait_until(BoundedTask::Clock::now() + kMountPatience);
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
