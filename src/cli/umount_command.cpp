// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "cli/app.h"
#include "cli/command.h"
#include "cli/mount_status.h"
#include "fuse/mount.h"
#include "fuse/mount_table.h"
#include "fuse/surviving_mount.h"

namespace reshardfs {
namespace {

struct UmountArguments {
  std::string mountpoint;
  bool if_mounted = false;
};

/// ", process 4242", or nothing where the mount does not say.
std::string daemon_words(const SurvivingMount& left, const MountEntry& mount) {
  if (left.way.empty()) return "";
  MountEntry reached = mount;
  reached.mountpoint = left.way.string();
  const nlohmann::ordered_json status = mount_statuses({reached}).front().json;
  if (!status.is_object() || !status.contains("pid")) return "";
  return fmt::format(", process {},", status.at("pid").dump());
}

/// Who unmounts expects the daemon to end.
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

}  // namespace

void add_umount_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<UmountArguments>();
  CLI::App* command = app.add_subcommand("umount", "Unmount a checkpoint");
  command
      ->add_option("MOUNTPOINT", arguments->mountpoint,
                   "A mount point, or with --config a mount's name")
      ->required();
  command->add_flag("--if-mounted", arguments->if_mounted, "Succeed even if nothing is mounted");
  command->add_option("--config", "Look up MOUNTPOINT as a mount's name in a TOML file")
      ->type_name("FILE.toml");
  command->footer("Example:\n  reshardfs umount /mnt/tp4");
  command->callback([&action, arguments] {
    action = [arguments] {
      if (!arguments->if_mounted || find_mount(arguments->mountpoint)) {
        tell_of_survivor(unmount(arguments->mountpoint));
      }
      return kExitDone;
    };
  });
}

}  // namespace reshardfs
