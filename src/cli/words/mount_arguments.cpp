// SPDX-License-Identifier: Apache-2.0
#include "cli/words/mount_arguments.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {

void MountArguments::add_to(CLI::App& command) {
  command
      .add_option(
          "SOURCE", conversion.source,
          "The checkpoint: a directory of rank directories or with a whole model, or a file")
      ->required();
  CLI::Option* place =
      command
          .add_option("MOUNTPOINT", mountpoint,
                      "An empty directory, or /dev/fd/N; not required with --fuse-socket")
          ->required();
  conversion.add_to(command);
  command.get_option("--step")
      ->description(
          "The step to show, as inspect lists it (e.g. 9_50); all for each step in steps/ and the "
          "newest in latest/, including steps saved later")
      ->type_name("STEP|latest|all");
  command.add_flag("-f,--foreground", foreground, "Stay in the foreground");
  command.add_flag("--check-only", check_only, "Run all checks of a mount without mounting");
  command.add_flag("--nonempty", nonempty, "Allow a mount point that is not empty");
  command.add_flag("--allow-other", allow_other, "Let other users read the mount");
  command.add_flag(
      "--direct-io", direct_io,
      "Bypass the kernel's page cache: saves memory, slows down small reads, and rules out "
      "shared memory maps");
  command.add_flag("--passthrough", passthrough,
                   "Let the kernel serve files that equal a source file, without checking for "
                   "changes while they are open (root, Linux 6.9)");
  command.add_flag("--supervise", supervise,
                   "Keep the mount when its process crashes: a small second process starts "
                   "another one, which takes over");
  command
      .add_option("--crash-limit", crash_limit, "Crashes within a minute that the mount survives")
      ->type_name("NUMBER")
      ->capture_default_str()
      ->take_last();
  command
      .add_option(
          "--read-ahead-kb", read_ahead_kb,
          "Kernel read-ahead of the mount in KiB; 0 keeps the kernel's own; by default, 1024, or "
          "4096 if the source is on a network or FUSE file system")
      ->type_name("KIB")
      ->take_last();
  access.add_to(command);
  command
      .add_option_function<std::string>(
          "--fuse-socket",
          [this, place](const std::string& text) {
            fuse_socket = parse_fuse_socket(text);
            place->required(false);
          },
          "Serve a mount whose FUSE descriptor another program hands over through this Unix "
          "socket; with listen:PATH, make the socket instead of connecting to it")
      ->type_name("PATH")
      ->take_last();
  command.add_option("--fuse-socket-wait", fuse_socket_wait, "How long to wait for the descriptor")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 86400).description(""))
      ->capture_default_str()
      ->take_last();
  command
      .add_option("--fuse-option", fuse_options,
                  "Mount option to pass to FUSE and the kernel (repeatable)")
      ->take_all()
      ->expected(1);
}

std::shared_ptr<const MountArguments> parse_mount_words(std::vector<std::string> words) {
  auto arguments = std::make_shared<MountArguments>();
  CLI::App app;
  arguments->add_to(*app.add_subcommand("mount"));
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw Error(
        ErrorKind::kUnsupported,
        std::string("this version does not take the options of the mount: ") + error.what());
  }
  return arguments;
}

}  // namespace reshardfs
