// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/mount_status.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/read_write.h"
#include "daemon/status/bounded_task.h"
#include "daemon/status/metrics_union.h"

namespace reshardfs {
namespace {

/// More than any mount has to say; what calls itself one may have no end.
constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

/// Another file system mounted under this name may contain links or a pipe.
/// @return none, with errno, if it cannot be opened.
Descriptor open_control_file(const std::filesystem::path& mountpoint, const char* name) {
  // O_PATH: to open a directory for reading would be a request that a mount's source has to answer.
  const Descriptor directory =
      open_in(AT_FDCWD, (mountpoint / ".reshardfs").c_str(), O_PATH | O_DIRECTORY);
  return directory ? open_in(directory.get(), name, O_RDONLY) : Descriptor();
}

TaskResult read_once(const std::filesystem::path& mountpoint, const char* name) {
  const Descriptor file = open_control_file(mountpoint, name);
  if (!file) return {errno, ""};
  TaskResult result;
  result.error = read_to_end(file.get(), result.text, kMostBytes + 1);
  if (result.text.size() > kMostBytes) result = {EFBIG, ""};
  return result;
}

}  // namespace

TaskResult read_control_file(const std::filesystem::path& mountpoint, const char* name) {
  constexpr int kMostTries = 10;
  TaskResult result = read_once(mountpoint, name);
  // What was opened of a process that has crashed since is not of the one that goes on.
  for (int tries = 1; result.error == ESTALE && tries < kMostTries; ++tries) {
    result = read_once(mountpoint, name);
  }
  return result;
}

namespace {

constexpr std::chrono::milliseconds kReadyPatience{2000};

/// The content of `ready` of a ready mount.
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

namespace {

/// Objects inside each other in it are few. What prints it calls itself for each.
constexpr std::size_t kDeepest = 32;

bool is_unsigned_or_absent(const JsonValue& object, const char* key) {
  const auto value = object.find(key);
  return !value || value->unsigned_integer();
}

/// Whether what is shown of a status has the types that it must have.
bool is_status(const JsonValue& json) {
  if (!json.is_object() || !is_unsigned_or_absent(json, "uptime_seconds")) return false;
  const auto activity = json.find("activity");
  if (!activity) return true;
  if (!activity->is_object() || !is_unsigned_or_absent(*activity, "bytes_delivered")) return false;
  const auto errors = activity->find("read_errors");
  if (!errors) return true;
  bool is_good = errors->is_object();
  for (const JsonValue count : *errors) is_good = is_good && count.unsigned_integer();
  return is_good;
}

/// The name that a status gives of a source file that has changed; empty if none has.
std::string changed_file_of(const JsonValue& json) {
  return std::string(json["source_changed"]["file"].text().value_or(""));
}

/// As far as the answer to any question tells it: kLive if there is one.
MountState state_of(const std::optional<TaskResult>& result) noexcept {
  if (!result) return MountState::kStalled;
  if (result->error == ENOTCONN || result->error == ECONNABORTED) return MountState::kDead;
  return result->error == 0 ? MountState::kLive : MountState::kUnreadable;
}

MountStatus with_result(MountEntry mount, const std::optional<TaskResult>& result) {
  MountStatus status{
      .mount = std::move(mount), .state = state_of(result), .error = result ? result->error : 0};
  if (status.state != MountState::kLive) return status;
  auto json = JsonDocument::parse(result->text, kDeepest);
  if (!json || !is_status(json->value())) {
    status.state = MountState::kUnreadable;
    return status;
  }
  status.text = result->text;
  status.json = *std::move(json);
  status.changed_file = changed_file_of(status.json.value());
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

/// The answers of all, in the order of the mounts: nothing of those that give none in time.
std::vector<std::optional<TaskResult>> answers_of(const std::vector<MountEntry>& mounts,
                                                  const char* name,
                                                  std::chrono::milliseconds patience) {
  std::vector<std::optional<BoundedTask>> tasks = ask_all(mounts, name);
  const auto deadline = BoundedTask::Clock::now() + patience;
  std::vector<std::optional<TaskResult>> answers;
  answers.reserve(tasks.size());
  for (std::optional<BoundedTask>& task : tasks) {
    answers.push_back(task ? task->wait_until(deadline) : TaskResult{EAGAIN, ""});
  }
  return answers;
}

/// What they find out shows in their status and metrics.
void let_examine(const std::vector<MountEntry>& mounts, std::chrono::milliseconds patience) {
  static_cast<void>(answers_of(mounts, "ready", patience / 2));
}

}  // namespace

std::vector<MountStatus> examined_mounts(const std::vector<MountEntry>& mounts,
                                         std::chrono::milliseconds patience) {
  let_examine(mounts, patience);
  return mount_statuses(mounts, patience);
}

std::string mount_metrics(const std::vector<MountEntry>& mounts,
                          std::chrono::milliseconds patience) {
  let_examine(mounts, patience);
  const std::vector<std::optional<TaskResult>> answers = answers_of(mounts, "metrics", patience);
  MetricsUnion those;
  std::vector<MountState> states;
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const MountState state = state_of(answers[i]);
    const bool good =
        state != MountState::kLive || those.add(mounts[i].mountpoint, answers[i]->text);
    states.push_back(good ? state : MountState::kUnreadable);
  }
  MetricsUnion all;
  all.begin("up", "Whether the mount answers.");
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    if (is_foreign(states[i], answers[i] ? answers[i]->error : 0)) continue;
    all.own_sample(mounts[i].mountpoint, "", states[i] == MountState::kLive);
  }
  all.begin("mount_state", "Always 1; the label is the state, as 'reshardfs status' has it.");
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const std::string label = std::string(",state=\"") + name_of(states[i]) + '"';
    all.own_sample(mounts[i].mountpoint, label, true);
  }
  return all.text() + those.text();
}

const char* name_of(MountState state) noexcept {
  switch (state) {
    case MountState::kLive:
      return "live";
    case MountState::kDead:
      return "dead";
    case MountState::kStalled:
      return "stalled";
    case MountState::kUnreadable:
      break;
  }
  return "unreadable";
}

std::vector<MountStatus> mount_statuses(const std::vector<MountEntry>& mounts,
                                        std::chrono::milliseconds patience) {
  const auto answers = answers_of(mounts, "status.json", patience);
  std::vector<MountStatus> statuses;
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    statuses.push_back(with_result(mounts[i], answers[i]));
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
