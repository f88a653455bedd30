// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cli/app.h"
#include "cli/command.h"
#include "fuse/mount.h"
#include "fuse/mount_table.h"

namespace reshardfs {
namespace {

struct UmountArguments {
  std::string mountpoint;
  bool if_mounted = false;
};

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
        unmount(arguments->mountpoint);
      }
      return kExitDone;
    };
  });
}

}  // namespace reshardfs
