// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cli/app.h"
#include "cli/command.h"
#include "fuse/mount.h"

namespace reshardfs {

void add_umount_command(CLI::App& app, CommandAction& action) {
  auto mountpoint = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("umount", "Unmount, as umount or fusermount3 -u do");
  command->add_option("MOUNTPOINT", *mountpoint, "Where a checkpoint is mounted")->required();
  command->footer("Example:\n  reshardfs umount /mnt/tp4");
  command->callback([&action, mountpoint] {
    action = [mountpoint] {
      unmount(*mountpoint);
      return kExitDone;
    };
  });
}

}  // namespace reshardfs
