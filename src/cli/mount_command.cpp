// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/mount_table.h"
#include "base/process/free_memory.h"
#include "base/process/signals.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "checkpoint/series/step.h"
#include "cli/advice/advise.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/messages.h"
#include "cli/mount_places.h"
#include "cli/shown_words.h"
#include "cli/source_wait.h"
#include "cli/warming.h"
#include "cli/words/conversion_words.h"
#include "cli/words/mount_arguments.h"
#include "daemon/complete_steps.h"
#include "daemon/keeping/service_manager.h"
#include "daemon/keeping/supervisor.h"
#include "daemon/mount_role.h"
#include "daemon/mount_tree.h"
#include "daemon/mount_versions.h"
#include "daemon/open_conversion.h"
#include "daemon/outage.h"
#include "daemon/process/background.h"
#include "daemon/process/process_end.h"
#include "daemon/serve.h"
#include "daemon/started_program.h"
#include "fuse/event_log.h"
#include "fuse/mounting/fuse_socket.h"
#include "fuse/mounting/mount_options.h"
#include "fuse/mounting/mountpoint.h"
#include "fuse/session.h"
#include "report/text/terminal.h"
#include "storage/local/own_mount.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

/// Whether a terminal is this process's, so that SIGHUP says that it has gone.
bool has_terminal() {
  return static_cast<bool>(Descriptor(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)));
}

void reload(const LogSettings& log) {
  notify_service_manager("RELOADING=1");
  log.reload();
  notify_service_manager("READY=1");
}

/// The parts of one `reshardfs mount`.
struct MountJob {
  MountArguments arguments;
  MountWords words;
  MountRole role;
  /// Adds the corrected command to an error; empty if no user has typed the command.
  std::function<Error(const Error&)> advise{};
};

MountRoleChoices role_choices(const MountArguments& arguments) {
  return {.supervise = arguments.supervise,
          .foreground = arguments.foreground,
          .passthrough = arguments.passthrough,
          .crash_limit = arguments.crash_limit,
          .fuse_options = arguments.fuse_options};
}

MountWords words_of(const Given& given) {
  return {given.plain_words(), [from_file = given.from_file](const auto& words) {
            return conversion_options(read_mount_words(words, from_file));
          }};
}

ServeOptions mount_options(const MountArguments& arguments) {
  ServeOptions options;
  if (!arguments.foreground || !has_terminal()) {
    options.on_hangup = [log = arguments.log] { reload(log); };
  }
  options.on_end = [] { notify_service_manager("STOPPING=1"); };
  options.mountpoint = arguments.mountpoint;
  options.nonempty = arguments.nonempty;
  const std::filesystem::path source = absolute_source(arguments.source);
  options.source_name = normal_location(source);
  options.fuse_options = arguments.fuse_options;
  if (arguments.allow_other) options.fuse_options.emplace_back("allow_other");
  options.uid = arguments.uid;
  options.gid = arguments.gid;
  options.file_mode = arguments.file_mode;
  options.dir_mode = arguments.dir_mode;
  options.read_ahead_kb = arguments.read_ahead_kb.value_or(read_ahead_for(source));
  options.direct_io = arguments.direct_io;
  options.passthrough = arguments.passthrough;
  return options;
}

/// Whether it prints nothing but what is wrong.
bool is_terse(const LogSettings& log) {
  return log.quiet || log.level == "error";
}

/// Whether a person reads what is printed. Programs that mount read the exit code.
bool tells_terminal(const MountArguments& arguments) {
  return output_is_terminal() && !is_terse(arguments.log);
}

/// The line for a user who mounts by hand.
/// @param more another line; empty: none.
void tell_terminal(const std::string& what, const std::string& more,
                   const MountArguments& arguments) {
  if (!tells_terminal(arguments)) return;
  const std::string place = place_of(arguments);
  if (arguments.fuse_socket) {
    std::cout << fmt::format("serving {}: {}\n", place, what) << std::flush;
    return;
  }
  const std::string end =
      arguments.foreground ? "Ctrl-C unmounts" : "unmount with: " + command_line("umount", {place});
  std::cout << fmt::format("mounted at {}: {}; {}\n", place, what, end);
  if (!more.empty()) std::cout << more << "\n";
  std::cout << std::flush;
}

void report_live(const std::string& what, const MountArguments& arguments) {
  const std::string place = place_of(arguments);
  log_info(LogEvent::kMounted, "mounted {} at {}", what, place);
  notify_service_manager(fmt::format("READY=1\nSTATUS={} of {} at {}", what,
                                     printable(shown_location(arguments.source)), place));
}

/// Serves at the mount point, or takes the descriptor from the socket. It does so this late because
/// after an error in the checkpoint, the other program still has the descriptor for a new attempt.
template <typename Source>
void serve_at(Source& source, const MountArguments& arguments, ServeOptions options,
              const std::function<void()>& on_live) {
  if (!arguments.fuse_socket || options.handover.takeover != nullptr) {
    return serve(source, options, on_live);
  }
  const HandedDescriptor handed = [&] {
    const StopSignals stop;
    return receive_fuse_descriptor(*arguments.fuse_socket,
                                   std::chrono::seconds(arguments.fuse_socket_wait), stop.flag());
  }();
  options.mountpoint = "/dev/fd/" + std::to_string(handed.fuse);
  options.handover.connection = handed.connection.get();
  serve(source, options, on_live);
}

HandoverOptions handover_options(const MountRole& role, MountVersions& versions) {
  HandoverOptions options = role.options();
  options.trees = std::move(versions.known);
  options.change = std::move(versions.change);
  options.without_openings = std::move(versions.without_openings);
  return options;
}

void mount_one_step(const MountJob& job, const ConversionOptions& options,
                    const std::function<void()>& ready) {
  const MountArguments& arguments = job.arguments;
  // The tree keeps what it needs of the conversion.
  auto conversion = std::make_optional(open_conversion(options));
  const std::int64_t ranks = conversion->rank_count();
  const bool tells = tells_terminal(arguments);
  const std::string shown = tells ? contents_words(*conversion, options) : std::string();
  const std::string more = tells ? way_to_hugging_face(*conversion, options) : std::string();
  ServeOptions mount = mount_options(arguments);
  mount.mtime_ns = conversion->mtime_ns();
  MountVersions versions =
      mount_versions(options, *conversion, mount, job.words, job.role.takeover());
  mount.handover = handover_options(job.role, versions);
  TreeVersions tree(std::move(versions.trees));
  conversion.reset();
  return_free_memory();
  serve_at(tree, arguments, std::move(mount), [&] {
    report_live(counted(static_cast<std::size_t>(ranks), "target rank"), arguments);
    tell_terminal(shown, more, arguments);
    ready();
  });
}

void mount_all_steps(const MountJob& job, const ConversionOptions& options,
                     const std::function<void()>& ready) {
  const MountArguments& arguments = job.arguments;
  ServeOptions mount = mount_options(arguments);
  // Whatever else is saved beside them later, the steps stay those of one run.
  ConversionOptions followed = options;
  followed.source.prefix = series_of(options);
  MountVersions versions =
      steps_versions(options, followed.source.prefix, mount, job.words, job.role.takeover());
  std::optional<StepTree::GoingOn> before;
  if (Takeover* const takeover = job.role.takeover()) {
    const auto count = [takeover](std::uint64_t tree) { return takeover->openings().of(tree); };
    before = StepTree::GoingOn{takeover->record().read(MemoryRecord::Text::kTree), count,
                               takeover->after_crash()};
  }
  const std::unique_ptr<StepTree> tree = all_steps_tree(followed, before);
  mount.handover = handover_options(job.role, versions);
  serve_at(*tree, arguments, std::move(mount), [&] {
    report_live("all complete steps", arguments);
    tell_terminal("all complete steps", {}, arguments);
    ready();
  });
}

/// Everything that can go wrong with the input happens before `ready` is called; with all steps,
/// what is wrong with a single step is that step's directory's.
int mount_and_serve(const MountJob& job, const ConversionOptions& options,
                    const std::function<void()>& ready) {
  keep_little_free_memory();
  name_mount(job.arguments, absolute_source(job.arguments.source));
  job.arguments.log.apply();
  const auto mount = options.source.step == kAllSteps ? mount_all_steps : mount_one_step;
  bool live = false;
  try {
    mount(job, options, [&] {
      live = true;
      ready();
    });
  } catch (const Error& error) {
    if (live || !job.advise) throw;
    throw job.advise(error);
  }
  return kExitDone;
}

/// All that a mount checks before it is live.
int check(const MountArguments& arguments, const ConversionOptions& options) {
  arguments.log.apply();
  require_known_options(mount_options(arguments));
  if (options.source.step == kAllSteps) {
    all_steps_tree(options);
  } else {
    conversion_tree(open_conversion(options));
  }
  return kExitDone;
}

/// A directory above it may have been renamed.
std::filesystem::path place_now(const HandoverState& state) {
  const auto mount = state.mount ? found_again(*state.mount) : std::nullopt;
  return mount ? mount->mountpoint : state.mountpoint;
}

/// Takes over a mount. After a failure, its present process keeps it and reports the error.
int go_on_with_mount(MountJob& job) {
  MountArguments& arguments = job.arguments;
  MountRole& role = job.role;
  const std::string asked =
      std::exchange(arguments.mountpoint, role.takeover()->state().mountpoint);
  bool live = false;
  const auto tell = [&](const std::string& message) {
    if (live) log_error(LogEvent::kMountFailed, "the mount has ended: {}", message);
    if (!live) role.fail(message);
  };
  const auto ready = [&] {
    live = true;
    if (!arguments.foreground && ::chdir("/") != 0)
      log_warning(LogEvent::kMessage, "the working directory stays");
  };
  return leave(report_errors(
      [&] {
        set_own_mount(place_now(role.takeover()->state()));
        if (!role.takeover()->after_crash() && !arguments.fuse_socket) {
          require_same_place(asked, role.takeover()->state());
        }
        const auto attempt = [&] {
          const ConversionOptions options =
              options_after(conversion_options(arguments.given), job.words, *role.takeover());
          return mount_and_serve(job, options, ready);
        };
        const auto may_try_again = [&] {
          const Takeover& takeover = *role.takeover();
          const auto& mount = takeover.state().mount;
          return takeover.after_crash() && !takeover.is_taken() &&
                 (!mount || is_still_there(*mount));
        };
        return outlast_outage(absolute_location(arguments.source), attempt, may_try_again);
      },
      tell));
}

/// Another process serves the mount, whatever comes of this.
int warm_mount(const std::vector<std::filesystem::path>& paths, const MountArguments& arguments) {
  // They were blocked when the mount was made.
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const int code =
      report_errors([&] { return warm_paths(paths, 0, is_terse(arguments.log)); }, complain);
  if (code != kExitDone) complain("the mount at " + place_of(arguments) + " stays");
  return code;
}

/// A process of its own serves the mount, and this one keeps it.
int supervise(MountJob& job, const ConversionOptions& options, const std::function<void()>& ready,
              const std::function<void(const std::string&)>& tell) {
  const MountArguments& arguments = job.arguments;
  name_mount(arguments, absolute_source(arguments.source));
  arguments.log.apply();
  SupervisorOptions supervisor{.start = job.role.successor(), .crash_limit = arguments.crash_limit};
  if (!arguments.foreground) {
    supervisor.on_live = [&] {
      detach_from_caller();
      arguments.log.leave_terminal();
    };
  }
  return supervise_mount(supervisor, [&](Descriptor connection) {
    job.role.supervise_by(std::move(connection));
    return leave(report_errors([&] { return mount_and_serve(job, options, ready); }, tell));
  });
}

}  // namespace

int run_mount(const Given& given, StartedProgram& program) {
  const MountArguments asked = mount_arguments(given);
  MountJob job{asked, words_of(given),
               MountRole(role_choices(asked), program.successor(), program.take_predecessor())};
  MountArguments& arguments = job.arguments;
  if (job.role.takeover() != nullptr) return go_on_with_mount(job);
  job.advise = [&given](const Error& error) { return advised(error, given); };
  // The source may hang until it has been waited for.
  name_mount(arguments, absolute_location(arguments.source));
  refuse_outputs_inside(arguments);
  wait_for_source(arguments);
  refuse_inputs_inside(arguments);
  if (!arguments.fuse_socket) {
    refuse_swapped_places(given);
  }
  const ConversionOptions options = conversion_options(arguments.given);
  if (!arguments.fuse_socket) {
    check_mountpoint(arguments.mountpoint, options.source.path, arguments.nonempty);
    arguments.mountpoint = real_mountpoint(arguments.mountpoint);
    set_own_mount(arguments.mountpoint);
  }
  if (arguments.check_only) return check(arguments, options);
  const std::vector<std::filesystem::path> warm = paths_to_warm(arguments);
  const auto run = [&](const std::function<void()>& ready,
                       const std::function<void(const std::string&)>& tell) {
    return job.role.wants_supervisor() ? supervise(job, options, ready, tell)
                                       : mount_and_serve(job, options, ready);
  };
  if (arguments.foreground) {
    std::optional<WarmingProcess> warming;
    if (!warm.empty()) warming.emplace(warm, is_terse(arguments.log));
    return run(
        [&] {
          if (warming) warming->begin();
        },
        complain);
  }
  // The daemon leaves the working directory.
  if (arguments.fuse_socket) {
    arguments.fuse_socket->path = std::filesystem::absolute(arguments.fuse_socket->path);
  }
  if (!arguments.log.file.empty()) {
    arguments.log.file = std::filesystem::absolute(arguments.log.file);
  }
  const auto work = [&](const std::function<void()>& ready) {
    bool live = false;
    const auto detached = [&] {
      ready();
      arguments.log.leave_terminal();
      live = true;
    };
    // Nobody sees what a daemon says on standard error.
    const auto tell = [&](const std::string& message) {
      live ? log_error(LogEvent::kMountFailed, "the mount has ended: {}", message)
           : complain(message);
    };
    return leave(report_errors([&] { return run(detached, tell); }, tell));
  };
  const int code = run_in_background(work, listener_descriptor());
  if (code != kExitDone || warm.empty()) return code;
  return warm_mount(warm, arguments);
}

}  // namespace reshardfs
