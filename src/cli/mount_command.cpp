// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "reshardfs/error.h"

#include "base/free_memory.h"
#include "base/text.h"
#include "checkpoint/step.h"
#include "cli/access_arguments.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/conversion_arguments.h"
#include "cli/mount_tree.h"
#include "cli/process_end.h"
#include "cli/stop_signals.h"
#include "cli/swapped_places.h"
#include "cli/terminal.h"
#include "fuse/background.h"
#include "fuse/fuse_socket.h"
#include "fuse/mount.h"
#include "fuse/read_ahead.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

struct MountArguments {
  ConversionArguments conversion;
  /// With a FUSE socket: what the mount is called, or empty.
  std::string mountpoint;
  std::optional<FuseSocket> fuse_socket;
  unsigned fuse_socket_wait = 60;
  std::vector<std::string> fuse_options;
  bool foreground = false;
  bool check_only = false;
  bool nonempty = false;
  bool allow_other = false;
  bool direct_io = false;
  bool passthrough = false;
  std::optional<unsigned> read_ahead_kb;
  AccessArguments access;
};

/// Tells the service manager that started this process how it is, as sd_notify(3) does: lines such
/// as READY=1 or STATUS=TEXT. Nothing if $NOTIFY_SOCKET names no such manager; a manager that does
/// not listen is no reason to stop.
void notify_service_manager(const std::string& state) noexcept {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr) return;
  const std::string_view path = name;
  sockaddr_un address{};
  // Its last byte stays zero, as the end of a path.
  if (path.size() < 2 || path.size() >= sizeof(address.sun_path)) return;
  if (path[0] != '/' && path[0] != '@') return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  // An abstract socket: its name begins with a zero byte, and has no end but its length.
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  static_cast<void>(::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), length));
  ::close(socket);
}

/// Whether a terminal is this process's, so that SIGHUP says that it has gone.
bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return false;
  ::close(terminal);
  return true;
}

void reload(const LogArguments& log) {
  notify_service_manager("RELOADING=1");
  log.reload();
  notify_service_manager("READY=1");
}

MountOptions mount_options(const MountArguments& arguments) {
  MountOptions options;
  if (!arguments.foreground || !has_terminal()) {
    options.on_hangup = [log = arguments.conversion.log] { reload(log); };
  }
  options.on_end = [] { notify_service_manager("STOPPING=1"); };
  options.mountpoint = arguments.mountpoint;
  options.nonempty = arguments.nonempty;
  const std::filesystem::path source = absolute_source(arguments.conversion.source);
  options.source_name = normal_location(source);
  options.fuse_options = arguments.fuse_options;
  if (arguments.allow_other) options.fuse_options.emplace_back("allow_other");
  options.uid = arguments.access.uid;
  options.gid = arguments.access.gid;
  options.file_mode = arguments.access.file_mode;
  options.dir_mode = arguments.access.dir_mode;
  options.read_ahead_kb = arguments.read_ahead_kb.value_or(read_ahead_for(source));
  options.direct_io = arguments.direct_io;
  options.passthrough = arguments.passthrough;
  return options;
}

/// What messages call the mount.
std::string place_of(const MountArguments& arguments) {
  if (!arguments.mountpoint.empty()) return printable(arguments.mountpoint);
  return "the mount of " + printable(arguments.fuse_socket->path);
}

/// The one line for who mounts by hand. Programs that mount read the exit code.
void tell_terminal(const std::string& what, const MountArguments& arguments) {
  const LogArguments& log = arguments.conversion.log;
  if (!output_is_terminal() || log.quiet || log.level == "error") return;
  const std::string place = place_of(arguments);
  if (arguments.fuse_socket) {
    std::cout << fmt::format("serving {}: {}\n", place, what) << std::flush;
    return;
  }
  const std::string end =
      arguments.foreground ? "Ctrl-C unmounts" : "unmount with: reshardfs umount " + place;
  std::cout << fmt::format("mounted at {}: {}; {}\n", place, what, end) << std::flush;
}

void report_live(const std::string& what, const MountArguments& arguments) {
  const std::string place = place_of(arguments);
  spdlog::info("mounted {} at {}", what, place);
  notify_service_manager(fmt::format("READY=1\nSTATUS={} of {} at {}", what,
                                     printable(shown_location(arguments.conversion.source)),
                                     place));
}

/// "4 ranks, 119 parameters", or of ranks "2 of 4 ranks".
std::string contents_words(const Conversion& conversion, const ConversionOptions& options) {
  const std::string ranks = counted(static_cast<std::size_t>(conversion.rank_count()), "rank");
  const std::set<Rank> shown(options.ranks.begin(), options.ranks.end());
  return (shown.empty() ? "" : std::to_string(shown.size()) + " of ") + ranks + ", " +
         counted(conversion.parameter_count(), "parameter");
}

/// Serves at the mount point, or what is handed over through the socket: only now, so that what is
/// wrong with the checkpoint leaves the descriptor with who has it, for another attempt.
template <typename Source>
void serve_at(Source& source, const MountArguments& arguments, MountOptions options,
              const std::function<void()>& on_live) {
  if (!arguments.fuse_socket) return serve(source, options, on_live);
  const HandedDescriptor handed = [&] {
    const StopSignals stop;
    return receive_fuse_descriptor(*arguments.fuse_socket,
                                   std::chrono::seconds(arguments.fuse_socket_wait), stop.flag());
  }();
  options.mountpoint = "/dev/fd/" + std::to_string(handed.fuse);
  serve(source, options, on_live);
}

void mount_one_step(const MountArguments& arguments, const ConversionOptions& options,
                    const std::function<void()>& ready) {
  // The tree keeps what it needs of the conversion.
  auto conversion = std::make_optional(open_conversion(options));
  const std::int64_t ranks = conversion->rank_count();
  const std::string shown = contents_words(*conversion, options);
  MountOptions mount = mount_options(arguments);
  mount.mtime_ns = conversion->mtime_ns();
  const Tree tree = conversion_tree(*conversion);
  conversion.reset();
  return_free_memory();
  serve_at(tree, arguments, std::move(mount), [&] {
    report_live(counted(static_cast<std::size_t>(ranks), "target rank"), arguments);
    tell_terminal(shown, arguments);
    ready();
  });
}

void mount_all_steps(const MountArguments& arguments, const ConversionOptions& options,
                     const std::function<void()>& ready) {
  const std::unique_ptr<StepTree> tree = all_steps_tree(options);
  serve_at(*tree, arguments, mount_options(arguments), [&] {
    report_live("all complete steps", arguments);
    tell_terminal("all complete steps", arguments);
    ready();
  });
}

/// Everything that can go wrong with the input happens before `ready` is called; with all steps,
/// what is wrong with a single step is that step's directory's.
int mount_and_serve(const MountArguments& arguments, const ConversionOptions& options,
                    const std::function<void()>& ready) {
  keep_little_free_memory();
  arguments.conversion.log.apply();
  const auto mount = options.step == kAllSteps ? mount_all_steps : mount_one_step;
  mount(arguments, options, ready);
  return kExitDone;
}

/// All that a mount checks before it is live.
int check(const MountArguments& arguments, const ConversionOptions& options) {
  arguments.conversion.log.apply();
  if (options.step == kAllSteps) {
    all_steps_tree(options);
  } else {
    conversion_tree(open_conversion(options));
  }
  return kExitDone;
}

int run_mount(MountArguments arguments) {
  if (!arguments.fuse_socket) {
    refuse_swapped_places(arguments.conversion.source, arguments.mountpoint);
  }
  const ConversionOptions options = arguments.conversion.options();
  if (!arguments.fuse_socket) {
    check_mountpoint(arguments.mountpoint, options.source, arguments.nonempty);
    arguments.mountpoint = real_mountpoint(arguments.mountpoint);
  }
  if (arguments.check_only) return check(arguments, options);
  if (arguments.foreground) return mount_and_serve(arguments, options, [] {});
  // The daemon leaves the working directory.
  if (arguments.fuse_socket) {
    arguments.fuse_socket->path = std::filesystem::absolute(arguments.fuse_socket->path);
  }
  if (!arguments.conversion.log.file.empty()) {
    arguments.conversion.log.file = std::filesystem::absolute(arguments.conversion.log.file);
  }
  return run_in_background([&](const std::function<void()>& ready) {
    bool live = false;
    const auto detached = [&] {
      ready();
      arguments.conversion.log.leave_terminal();
      live = true;
    };
    // Nobody sees what a daemon says on standard error.
    const auto tell = [&](const std::string& message) {
      live ? spdlog::error("the mount has ended: {}", message) : complain(message);
    };
    return leave(
        report_errors([&] { return mount_and_serve(arguments, options, detached); }, tell));
  });
}

}  // namespace

void add_mount_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<MountArguments>();
  CLI::App* command =
      app.add_subcommand("mount", "Mount a checkpoint as another strategy's files, read-only");
  command
      ->add_option(
          "SOURCE", arguments->conversion.source,
          "The checkpoint: a directory of rank directories or with a whole model, or a file")
      ->required();
  CLI::Option* mountpoint =
      command
          ->add_option("MOUNTPOINT", arguments->mountpoint,
                       "An empty directory, or /dev/fd/N; not required with --fuse-socket")
          ->required();
  arguments->conversion.add_to(*command);
  command->get_option("--step")
      ->description(
          "The step to show, as inspect lists it (e.g. 9_50); all for each step in steps/ and the "
          "newest in latest/, including steps saved later")
      ->type_name("STEP|latest|all");
  command->add_flag("-f,--foreground", arguments->foreground, "Stay in the foreground");
  command->add_flag("--check-only", arguments->check_only,
                    "Run all checks of a mount without mounting");
  command->add_flag("--nonempty", arguments->nonempty, "Allow a mount point that is not empty");
  command->add_flag("--allow-other", arguments->allow_other, "Let other users read the mount");
  command->add_flag(
      "--direct-io", arguments->direct_io,
      "Bypass the kernel's page cache: saves memory, slows down small reads, and rules out "
      "shared memory maps");
  command->add_flag("--passthrough", arguments->passthrough,
                    "Let the kernel serve files that equal a source file, without checking for "
                    "changes while they are open (root, Linux 6.9)");
  command
      ->add_option(
          "--read-ahead-kb", arguments->read_ahead_kb,
          "Kernel read-ahead of the mount in KiB; 0 keeps the kernel's own; by default, 1024, or "
          "4096 if the source is on a network or FUSE file system")
      ->type_name("KIB")
      ->take_last();
  arguments->access.add_to(*command);
  command
      ->add_option_function<std::string>(
          "--fuse-socket",
          [arguments, mountpoint](const std::string& text) {
            arguments->fuse_socket = parse_fuse_socket(text);
            mountpoint->required(false);
          },
          "Serve a mount whose FUSE descriptor another program hands over through this Unix "
          "socket; with listen:PATH, make the socket instead of connecting to it")
      ->type_name("PATH")
      ->take_last();
  command
      ->add_option("--fuse-socket-wait", arguments->fuse_socket_wait,
                   "How long to wait for the descriptor")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 86400).description(""))
      ->capture_default_str()
      ->take_last();
  command
      ->add_option("--fuse-option", arguments->fuse_options,
                   "Mount option to pass to FUSE and the kernel (repeatable)")
      ->take_all()
      ->expected(1);
  command->footer(
      "-o takes mount options as mount(8) passes them: ro, allow_other, uid=, gid=, and every long "
      "option as key=value.\n\nExample:\n  reshardfs mount ckpt /mnt/tp4 --src-strategy train.ckpt "
      "--dst-strategy serve.ckpt\n  ls -l /mnt/tp4/rank_0\n  reshardfs umount /mnt/tp4");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_mount(*arguments); }; });
}

}  // namespace reshardfs
