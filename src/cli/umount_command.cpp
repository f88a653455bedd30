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
  CLI::App* command = app.add_subcommand("umount", "Unmount, as umount or fusermount3 -u do");
  command->add_option("MOUNTPOINT", arguments->mountpoint, "Where a checkpoint is mounted")
      ->required();
  command->add_flag("--if-mounted", arguments->if_mounted,
                    "It is no error if nothing is mounted there");
  command
      ->add_option("--config",
                   "Take the mount point from a TOML file, where MOUNTPOINT may be a mount's name")
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
