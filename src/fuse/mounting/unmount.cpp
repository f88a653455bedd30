// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/unmount.h"

#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/mount_table.h"
#include "base/posix/poll_until.h"
#include "base/posix/read_write.h"
#include "base/process/child_process.h"
#include "base/text/file_name.h"
#include "base/text/near_name.h"
#include "base/text/numbers.h"
#include "base/text/shell_text.h"
#include "fuse/mounting/own_namespaces.h"

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

namespace {

namespace fs = std::filesystem;

Error busy(const std::string& mountpoint) {
  return Error(ErrorKind::kIo, "the mount is in use")
      .in_file(mountpoint)
      .os_error(EBUSY)
      .hint("'fuser -vm " + mountpoint + "' shows by whom; end these, or 'umount -l " + mountpoint +
            "' unmounts it when they have closed its files");
}

bool lacks_list_of_mounts() {
  return ::access(kListOfMounts, F_OK) != 0 && errno == ENOENT;
}

void unmount_as_user(const std::string& mountpoint) {
  const CommandResult result = run_fusermount({"-u", "--", mountpoint});
  if (result.exit_code == 0) return;
  if (result.messages.find("busy") != std::string::npos) throw busy(mountpoint);
  std::string reason = result.messages.substr(0, result.messages.find('\n'));
  if (reason.empty()) reason = "fusermount3 exits with " + std::to_string(result.exit_code);
  throw Error(ErrorKind::kIo, "cannot unmount: " + printable(reason))
      .in_file(mountpoint)
      .hint(lacks_list_of_mounts() ? kMakeListOfMounts : "");
}

/// A mount point like this path in the same directory, or those below it. Paths as wholes are not
/// compared: they are alike for the directories that they have in common.
std::string meant_mount(const std::string& path, const std::vector<MountEntry>& mounts) {
  const fs::path parent = fs::path(path).parent_path();
  std::vector<std::string> neighbours;
  std::vector<std::string> below;
  for (const MountEntry& mount : mounts) {
    const fs::path place = mount.mountpoint;
    if (place.parent_path() == parent) neighbours.push_back(place.filename());
    if (mount.mountpoint.starts_with(path + "/")) below.push_back(mount.mountpoint);
  }
  if (const auto near = near_name(fs::path(path).filename().string(), neighbours)) {
    return "did you mean '" + printable(parent / *near) + "'?";
  }
  return did_you_mean(path, below);
}

/// The path may be misspelt, or the source's.
Error nothing_mounted(const fs::path& mountpoint) {
  Error error(ErrorKind::kUsage, "nothing is mounted here");
  error.in_file(mountpoint);
  const std::string path =
      without_trailing_slash(fs::absolute(mountpoint).lexically_normal()).string();
  const std::vector<MountEntry> mounts = reshardfs_mounts();
  for (const MountEntry& other : mounts) {
    if (fs::path(other.source).lexically_normal() == path) {
      error.hint("it is the source of a mount: " + command_line("umount", {other.mountpoint}));
    }
  }
  return error.hint(meant_mount(path, mounts))
      .hint("'reshardfs status' lists what is mounted where");
}

void wait_until_gone(const MountEntry& mount, std::chrono::seconds patience) {
  constexpr std::chrono::milliseconds kPause{10};
  const auto deadline = deadline_after(patience);
  while (is_still_there(mount)) {
    if (PollClock::now() > deadline) {
      throw Error(ErrorKind::kIo, "the mount is still there").in_file(mount.mountpoint);
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

void require_way_to_unmount() {
  if (mount_rights().has_capability || !lacks_list_of_mounts()) return;
  throw Error(ErrorKind::kIo,
              "cannot mount here: there is no /etc/mtab, without which fusermount3 cannot unmount")
      .hint(kMakeListOfMounts);
}

MountEntry unmount(const fs::path& mountpoint, std::chrono::seconds patience) {
  const auto mount = find_mount(mountpoint);
  if (!mount) throw nothing_mounted(mountpoint);
  if (!is_reshardfs(*mount)) {
    throw Error(ErrorKind::kUsage, "the file system mounted here has type " + mount->type +
                                       ", not " + std::string(kMountType))
        .in_file(mountpoint);
  }
  if (::umount2(mount->mountpoint.c_str(), UMOUNT_NOFOLLOW) != 0) {
    if (errno == EBUSY) throw busy(mount->mountpoint);
    if (errno != EPERM) throw io_error("unmount", mount->mountpoint, errno);
    unmount_as_user(mount->mountpoint);
  }
  wait_until_gone(*mount, patience);
  return *mount;
}

UnmountNotice::UnmountNotice(const std::filesystem::path& mountpoint) noexcept
    : watcher_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  // An event must be named, and this one never comes; that of unmounting always does.
  watches_ = watcher_ && ::inotify_add_watch(watcher_.get(), mountpoint.c_str(),
                                             IN_DELETE_SELF | IN_ONLYDIR) != -1;
}

bool UnmountNotice::came() noexcept {
  // Events of a directory itself have no name.
  inotify_event event{};
  while (watches_ && !came_ && ::read(watcher_.get(), &event, sizeof event) == sizeof event) {
    came_ = (event.mask & IN_UNMOUNT) != 0;
  }
  return came_;
}

namespace {

namespace fs = std::filesystem;

/// A device number is free for the next mount as soon as the last place of one is gone.
bool is_same(const MountEntry& entry, const MountEntry& unmounted) {
  return entry.device == unmounted.device && is_reshardfs(entry) &&
         entry.source == unmounted.source && entry.id != unmounted.id;
}

std::optional<MountEntry> find_in(const fs::path& process, const MountEntry& unmounted) {
  for (MountEntry& entry : parse_mount_table(text_of_file(process / "mountinfo"))) {
    if (is_same(entry, unmounted)) return std::move(entry);
  }
  return {};
}

std::optional<pid_t> process_number(const fs::path& directory) {
  return parse_number<pid_t>(directory.filename().native());
}

/// One process of each mount namespace is looked at.
std::optional<SurvivingMount> find_elsewhere(const MountEntry& unmounted) {
  std::set<fs::path> seen;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto number = process_number(entry.path());
    if (!number) continue;
    // Those of processes that may not be inspected are empty, and count as one.
    const fs::path space = fs::read_symlink(entry.path() / "ns" / "mnt", failed);
    if (!seen.insert(space).second) continue;
    const auto found = find_in(entry.path(), unmounted);
    if (!found) continue;
    const fs::path below_root = fs::path(found->mountpoint).relative_path();
    return SurvivingMount{found->mountpoint, *number, first_line_of(entry.path() / "comm"),
                          entry.path() / "root" / below_root};
  }
  return {};
}

/// The kernel lists what every mount that is somewhere has.
bool has_device(const MountEntry& mount) {
  std::error_code failed;
  return fs::exists("/sys/class/bdi/" + mount.device, failed);
}

bool is_device_here(const std::string& device) {
  const std::vector<MountEntry> now = parse_mount_table(text_of_file("/proc/self/mountinfo"));
  return std::any_of(now.begin(), now.end(),
                     [&](const MountEntry& entry) { return entry.device == device; });
}

}  // namespace

std::optional<SurvivingMount> surviving_mount(const MountEntry& unmounted) noexcept {
  try {
    std::error_code failed;
    const bool lists_devices = fs::is_directory("/sys/class/bdi", failed);
    if (lists_devices && !has_device(unmounted)) return {};
    if (const auto here = find_in("/proc/self", unmounted)) {
      return SurvivingMount{here->mountpoint, 0, "", here->mountpoint};
    }
    if (auto elsewhere = find_elsewhere(unmounted)) return elsewhere;
    // The device may be another mount's by now, which is here then.
    const bool is_reused = is_device_here(unmounted.device);
    if (lists_devices && !is_reused && has_device(unmounted)) return SurvivingMount{};
  } catch (const std::exception&) {
    // Unmounting succeeded; only the look at what survives has failed.
  }
  return {};
}

}  // namespace reshardfs
