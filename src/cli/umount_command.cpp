// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/mount_table.h"
#include "cli/app.h"
#include "cli/command.h"
#include "daemon/status/mount_status.h"
#include "fuse/mounting/unmount.h"

namespace reshardfs {
namespace {

/// ", process 4242", or nothing where the mount does not say.
std::string daemon_words(const SurvivingMount& left, const MountEntry& mount) {
  if (left.way.empty()) return "";
  MountEntry reached = mount;
  reached.mountpoint = left.way.string();
  const MountStatus status = mount_statuses({reached}).front();
  const auto process = status.json.value()["pid"].unsigned_integer();
  return process ? fmt::format(", process {},", *process) : "";
}

/// A user who unmounts expects the daemon to end.
void tell_of_survivor(const MountEntry& mount) {
  const auto left = surviving_mount(mount);
  if (!left) return;
  std::string where = "another mount namespace still has it";
  if (left->process != 0) {
    where += fmt::format(": that of process {} ({}), at {}", left->process,
                         printable(left->program), printable(left->mountpoint));
  } else if (!left->mountpoint.empty()) {
    where = "it is still mounted at " + printable(left->mountpoint);
  }
  complain(
      fmt::format("{}: unmounted here, but {}; its daemon{} lives on until it is unmounted "
                  "there, too",
                  printable(mount.mountpoint), where, daemon_words(*left, mount)));
}

/// Whether the mount's connection has ended, which the kernel itself answers. One whose process has
/// crashed, but whose descriptors are kept, does not answer: another process will go on with it,
/// and a service manager that runs this command starts that process afterwards.
bool is_dead(const std::string& mountpoint) {
  constexpr std::chrono::milliseconds kPatience{500};
  const auto mount = find_mount(mountpoint);
  return mount && is_reshardfs(*mount) &&
         mount_statuses({*mount}, kPatience).front().state == MountState::kDead;
}

}  // namespace

int run_umount(const Given& given) {
  const std::string mountpoint = given.argument("MOUNTPOINT");
  if (given.flag("if-dead") && !is_dead(mountpoint)) return kExitDone;
  if (!given.flag("if-mounted") || find_mount(mountpoint)) tell_of_survivor(unmount(mountpoint));
  return kExitDone;
}

}  // namespace reshardfs
