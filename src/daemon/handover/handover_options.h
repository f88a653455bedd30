// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/posix/descriptor.h"
#include "daemon/handover/handover_state.h"
#include "fuse/kernel_caches.h"

namespace reshardfs {

class MountKeeper;
class Takeover;
class WakePipe;

/// A program to be started, with the directory to which paths in its arguments are relative.
struct ProgramStart {
  std::filesystem::path program{};  ///< absolute
  /// All words of its command line, without the program's name.
  std::vector<std::string> words{};
  std::filesystem::path directory{};  ///< in which it was started
};

/// How a mount passes from one process to another.
struct HandoverOptions {
  /// What SIGUSR2 starts, to take the mount over; none: SIGUSR2 keeps its meaning.
  std::optional<ProgramStart> successor{};
  /// Why the mount cannot be handed over; empty: it can.
  std::string obstacle{};
  /// What is shown, the last one, and those before it that have openings: what tells each from
  /// others. A mount goes on with the same, or shows another one if that is asked for.
  std::vector<MountedTree> trees{};
  /// The mount is another process's, and this one goes on with it.
  Takeover* takeover = nullptr;
  /// With `takeover`: what the kernel must be told of.
  std::optional<TreeChange> change{};
  /// With `takeover`: former trees that are not kept, since they had no openings. Should one have
  /// some by then, the mount stays with the other process.
  std::vector<std::uint64_t> without_openings{};
  /// The mount survives this process.
  MountKeeper* keeper = nullptr;
  /// The keeper has it from the process before this one.
  bool is_kept = false;
  /// A descriptor that must stay open while any process serves the mount; or -1.
  int connection = -1;
  // All of them are called on the thread that called serve(), and must not throw.
  /// Another process is started.
  std::function<void()> on_reload{};
  /// It has failed, and the mount stays with this one.
  std::function<void()> on_refusal{};
  /// It serves the mount.
  std::function<void(pid_t)> on_successor{};
  /// The same, after this process's reads have ended or been abandoned. Need not return. Signals
  /// that have come since are in the pipe; without this they are passed on to the other process.
  std::function<void(const WakePipe&)> after_hand_over{};
};

/// Keeps a mount's descriptors, so that the mount outlives the process that serves it.
class MountKeeper {
 public:
  MountKeeper() = default;
  MountKeeper(const MountKeeper&) = delete;
  MountKeeper& operator=(const MountKeeper&) = delete;
  virtual ~MountKeeper() = default;

  /// From now on the mount survives this process.
  /// @param requests, state as in MountDescriptors.
  virtual void keep(int fuse, int requests, int state) noexcept = 0;
  /// Closes the kept descriptors, so that the mount ends with this process.
  virtual void release() noexcept = 0;
  /// The keeper's connection that comes with a mount which was taken over.
  virtual void take_connection(Descriptor /*connection*/) noexcept {}
  /// The connection to the keeper, for the process that takes over the mount; -1: none is needed.
  virtual int connection() const noexcept { return -1; }
};

}  // namespace reshardfs
