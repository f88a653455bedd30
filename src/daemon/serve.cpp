// SPDX-License-Identifier: Apache-2.0
#include "daemon/serve.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/posix/mount_table.h"
#include "base/process/resource_limits.h"
#include "base/text/text.h"
#include "daemon/handover/handover_options.h"
#include "daemon/handover/mount_handover.h"
#include "daemon/handover/takeover.h"
#include "daemon/process/signal_guard.h"
#include "fuse/event_log.h"
#include "fuse/mounting/mountpoint.h"
#include "fuse/mounting/passthrough.h"
#include "fuse/served_tree.h"
#include "fuse/session.h"
#include "fuse/wake_pipe.h"
#include "fuse/worker_threads.h"

namespace reshardfs {
namespace {

/// How long reads that are under way may go on when the mount ends.
constexpr std::chrono::milliseconds kDrainTime{2000};

/// Sets the kernel's read-ahead for the mount, without touching the mount. Needs to be root;
/// otherwise logs what root would have to run. Slower is not broken.
void set_read_ahead(const std::filesystem::path& mountpoint, unsigned kib) noexcept {
  try {
    const auto mount = mount_at(mountpoint);
    if (!mount || mount->type != kMountType) return;
    const std::string setting = "/sys/class/bdi/" + mount->device + "/read_ahead_kb";
    std::ofstream file(setting);
    file << kib << std::flush;
    if (!file) {
      log_info(LogEvent::kReadAheadUnset,
               "read-ahead is left at the kernel's default; for faster reading, as root: "
               "echo {} > {}",
               kib, setting);
    }
  } catch (const std::exception& error) {
    log_info(LogEvent::kReadAheadUnset, "read-ahead is left at the kernel's default: {}",
             error.what());
  }
}

void tell_stall(const ServedTree& served, const StallWatch::Stall& stall) {
  using std::chrono::duration_cast;
  const auto seconds = duration_cast<std::chrono::seconds>(stall.waited).count();
  if (stall.over) {
    const LogScope scope(LogEvent::kStallOver,
                         {.duration = duration_cast<std::chrono::nanoseconds>(stall.waited)});
    // A reader of the warning must learn that the stall is over.
    log_warning(LogEvent::kStallOver, "no request waits for the source any longer, after {} s",
                seconds);
    return;
  }
  LogFields fields{.operation = stall.asked.operation,
                   .file = served.source.current()->path(stall.asked.inode)};
  stall.asked.asker.describe(fields);
  const std::string file = printable(fields.file);
  const LogScope scope(LogEvent::kSourceStalled, std::move(fields));
  log_warning(LogEvent::kSourceStalled, "{} of '/{}' has waited for the source for {} s",
              stall.asked.operation, file, seconds);
}

/// Not on the thread that notices it: the log may wait, too.
void tell_stalls(ServedTree& served) noexcept {
  try {
    while (const auto stall = served.storage.stall()) tell_stall(served, *stall);
  } catch (const std::exception&) {
    // The file is not there any more, or there is no memory for a line.
  }
}

enum class Ending : std::uint8_t {
  kSignal,
  kUnmounted,
  kSignalBeforeLive,
  kNeverLive,
  kHandedOver,
};

/// Waits for the end of the mount. The mount is live when the kernel's INIT has been answered: a
/// mount(2) that has returned shows only that the kernel will send it.
Ending supervise(const WakePipe& events, ServedTree& served, const ServeOptions& options,
                 MountHandover& handover, const std::function<void()>& on_live) {
  bool live = false;
  for (;;) {
    switch (events.wait()) {
      case Event::kLive:
        live = true;
        if (options.read_ahead_kb != 0) set_read_ahead(options.mountpoint, options.read_ahead_kb);
        on_live();
        break;
      case Event::kHangup:
        options.on_hangup();
        break;
      case Event::kReload:
        handover.ask(/*replace=*/false);
        break;
      case Event::kReplace:
        handover.ask(/*replace=*/true);
        break;
      case Event::kStall:
        tell_stalls(served);
        break;
      case Event::kToldKernel:
        handover.told_kernel();
        break;
      case Event::kSuccessor:
        if (handover.give()) return Ending::kHandedOver;
        break;
      case Event::kChild:
        break;
      case Event::kSignal:
        return live ? Ending::kSignal : Ending::kSignalBeforeLive;
      case Event::kEnded:
        return live ? Ending::kUnmounted : Ending::kNeverLive;
    }
  }
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

/// Threads that wait for a stalled source cannot be ended, and they use the tree and its sources:
/// nothing may be freed under them. So the process ends here.
/// @param failure why the mount ends, if that is no ordinary end.
[[noreturn]] void end_process(Session& session, ServedTree& served,
                              const std::exception_ptr& failure) {
  constexpr int kExitIo = 3;
  try {
    session.abandon();
    served.failures.tell_counts();
    if (failure) log_error(LogEvent::kMountFailed, "{}", text_of(failure));
    log_warning(LogEvent::kReadsAbandoned,
                "'{}' has ended; reads that were waiting for their source were abandoned",
                served.options.mountpoint.native());
    flush_log();
  } catch (const std::exception&) {
    // The error cannot be reported any more.
  }
  std::_Exit(failure ? kExitIo : EXIT_SUCCESS);
}

/// @param on_event as of WorkerThreads::stop(). @return whether all have ended.
bool stop_threads(WorkerThreads& workers, ServedTree& served, MountHandover& handover,
                  const std::function<void(Event)>& on_event = {}) {
  Refresher& refresher = served.refresher;
  // The refresher is told first, but only waited for with what the workers have left of the time.
  refresher.stop(std::chrono::milliseconds(0));
  const auto deadline = std::chrono::steady_clock::now() + kDrainTime;
  if (!workers.stop(kDrainTime, on_event)) return false;
  served.storage.stop();
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  const auto rest = std::max(left, std::chrono::milliseconds(1));
  return refresher.stop(rest) && handover.stop(rest);
}

/// A mount that ended before it could be used is a failure, no matter what ended it.
std::exception_ptr failure_of(Ending ending, const MountOptions& options) {
  switch (ending) {
    case Ending::kSignal:
    case Ending::kUnmounted:
    case Ending::kHandedOver:
      return nullptr;
    case Ending::kSignalBeforeLive:
      return std::make_exception_ptr(
          Error(ErrorKind::kIo, "a signal ended the mount before it was ready")
              .in_file(options.mountpoint));
    case Ending::kNeverLive:
      break;
  }
  Error error(ErrorKind::kIo, "the mount ended before it answered");
  // libfuse ends where no thread has the memory for a request, and tells the log alone.
  const std::string hint = limit_hint(Resource::kMemory);
  if (hint.starts_with("raise")) error.hint("if its threads had no memory, " + hint);
  return std::make_exception_ptr(error.in_file(options.mountpoint));
}

/// Why a mount ends that has been live, and what it leaves.
std::string words_of(Ending ending, Session& session, const ServedTree& served) {
  if (ending == Ending::kUnmounted) {
    return session.is_in_place() ? "the connection to the kernel was aborted" : "it was unmounted";
  }
  std::string words = "a signal asked for it";
  const std::uint64_t open = served.openings->count();
  if (open > 0) words += "; programs still have " + counted(open, "file") + " open";
  return words;
}

/// Later, looking at the mount point would be a request to this very process.
ServeOptions with_real_mountpoint(ServeOptions options) {
  const Takeover* const takeover = options.handover.takeover;
  // A mount that no process serves yet must not be accessed.
  options.mountpoint = takeover != nullptr ? std::filesystem::path(takeover->state().mountpoint)
                                           : real_mountpoint(options.mountpoint);
  return options;
}

/// What a signal asks of this process since another one has the mount.
void pass_on(Event event, pid_t successor) noexcept {
  if (event == Event::kSignal) ::kill(successor, SIGTERM);
  if (event == Event::kHangup) ::kill(successor, SIGHUP);
  if (event == Event::kReload) ::sigqueue(successor, SIGUSR2, {.sival_int = 0});
  if (event == Event::kReplace) ::sigqueue(successor, SIGUSR2, {.sival_int = kReplaceValue});
}

void pass_on_all(const WakePipe& events, pid_t successor) noexcept {
  while (const auto event = events.wait_for(std::chrono::milliseconds(0))) {
    pass_on(*event, successor);
  }
}

/// Another process has the mount.
void leave_mount(const HandoverOptions& options, Session& session, ServedTree& served,
                 WorkerThreads& workers, MountHandover& handover, const WakePipe& events) {
  const pid_t successor = *handover.successor();
  pass_on_all(events, successor);
  session.release();
  if (options.on_successor) options.on_successor(successor);
  handover.finish();
  const bool ended = stop_threads(workers, served, handover,
                                  [successor](Event event) { pass_on(event, successor); });
  served.failures.tell_counts();
  log_info(LogEvent::kHandedOver, "process {} has the mount now", successor);
  if (options.after_hand_over) options.after_hand_over(events);
  pass_on_all(events, successor);
  if (ended) return;
  flush_log();
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace

void serve(const Tree& tree, const ServeOptions& options, const std::function<void()>& on_live) {
  FixedTree source(tree);
  serve(source, options, on_live);
}

void serve(TreeSource& source, const ServeOptions& given_options,
           const std::function<void()>& on_live) {
  const ServeOptions options = with_real_mountpoint(given_options);
  const WakePipe events;
  const SignalGuard signals(events, options.on_hangup ? Hangup::kEvent : Hangup::kEnds,
                            {.reload = options.handover.successor.has_value()});
  InheritedDescriptors inherited;  // open until the session has ended
  ServedTree served(source, options);
  Session session(options, served);
  std::vector<std::string> again;
  if (options.handover.takeover != nullptr) {
    again = go_on_with_mount(session, served, options.handover, inherited);
  } else {
    session.mount();
  }
  served.passthrough.device = session.descriptor();
  WorkerThreads workers(session.get(), served, events);
  MountHandover handover(options.handover, inherited, session, served, workers, events);
  workers.start(std::move(again));
  if (options.handover.takeover != nullptr) options.handover.takeover->live();

  auto ending = Ending::kSignal;
  std::exception_ptr failure;
  try {
    if (source.changes()) served.refresher.start();
    ending = supervise(events, served, options, handover, [&] {
      session.watch_for_unmount();
      handover.begin();
      if (options.handover.takeover != nullptr) options.handover.takeover->wait_for_end();
      if (options.passthrough) explain_passthrough(served.passthrough);
      if (on_live) on_live();
    });
  } catch (...) {
    failure = std::current_exception();
  }
  if (ending == Ending::kHandedOver && !failure) {
    return leave_mount(options.handover, session, served, workers, handover, events);
  }
  if (options.handover.keeper != nullptr) options.handover.keeper->release();
  if (options.on_end) options.on_end();
  if (!failure) failure = failure_of(ending, options);
  const std::string why = failure ? "" : words_of(ending, session, served);
  if (!stop_threads(workers, served, handover)) end_process(session, served, failure);
  if (failure) std::rethrow_exception(failure);
  if (workers.error() != 0) throw io_error("talk to the kernel", "/dev/fuse", workers.error());
  served.failures.tell_counts();
  log_info(LogEvent::kMountEnded, "the mount has ended: {}", why);
}

}  // namespace reshardfs
