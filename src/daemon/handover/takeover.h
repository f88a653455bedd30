// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/handover/handover.h"
#include "daemon/handover/memory_record.h"
#include "fuse/opening_table.h"

namespace reshardfs {

/// A mount that another process serves, or has served until it crashed, and that this one will go
/// on with. See handover.h for the steps.
class Takeover {
 public:
  /// Sends HELLO to the process that serves the mount, and gets its description.
  /// @throws Error kIo if that process has gone, kUnsupported if its version is not understood.
  explicit Takeover(Descriptor socket);
  /// After a crash, with what a service manager has kept. @throws Error kUnsupported
  explicit Takeover(MountDescriptors kept);
  Takeover(const Takeover&) = delete;
  Takeover& operator=(const Takeover&) = delete;
  ~Takeover() = default;

  /// As the other process has left it; its record counts this hand-over.
  const HandoverState& state() const noexcept { return state_; }
  bool after_crash() const noexcept { return after_crash_; }
  /// Any other tree may be shown in the place of the other process's.
  bool may_replace() const noexcept { return replace_; }
  /// The names of the other process's tree; none after a crash. @throws Error kUnsupported
  std::vector<KnownName> names() const;
  OpeningTable& openings() noexcept { return *openings_; }
  /// What this process will show. @param is_new as HandoverState::is_new.
  void show(std::vector<MountedTree> trees, bool is_new, bool replaced);
  /// Whether take() was called: what fails from then on cannot be tried again.
  bool is_taken() const noexcept { return is_taken_; }
  /// Says that everything is opened and checked, and waits until the mount is this process's.
  /// @throws Error kIo if the other process has gone on with it.
  MountDescriptors take();
  /// What is handed over; after take().
  MemoryRecord& record() noexcept { return *record_; }
  /// This process answers requests.
  void live() noexcept;
  /// Waits for the other process to let go of everything: it need not be asked after this.
  void wait_for_end() noexcept;
  /// Gives up taking over the mount. If only a service manager has kept it, unmounts it, because no
  /// other process will.
  void fail(const std::string& why) noexcept;

 private:
  void read_state();

  std::optional<HandoverSocket> socket_;  ///< none: a service manager has kept it
  std::optional<MountDescriptors> kept_;
  std::optional<MemoryRecord> record_;
  std::optional<MemoryRecord> names_;
  std::optional<OpeningTable> openings_;
  HandoverState state_;
  bool replace_ = false;
  bool after_crash_ = false;
  bool is_taken_ = false;
};

}  // namespace reshardfs
