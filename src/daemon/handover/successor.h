// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "daemon/handover/handover.h"
#include "daemon/handover/memory_record.h"
#include "fuse/wake_pipe.h"

namespace reshardfs {

/// What it is told first.
struct SuccessorOffer {
  int state = -1;        ///< of a MemoryRecord with a HandoverState
  MemoryRecord names{};  ///< KnownNames
  bool replace = false;  ///< whether any other tree may be shown
};

/// The process that takes over the mount from this one.
class Successor {
 public:
  /// Starts it. Posts Event::kSuccessor when it is ready or has failed.
  /// @throws Error kIo, std::system_error
  Successor(const ProgramStart& start, SuccessorOffer offer, const WakePipe& events);
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;
  /// Ends the process, unless it has the mount. Waits for its end for a moment only.
  ~Successor();

  pid_t process() const noexcept { return process_; }
  /// Why it cannot take the mount over; empty: it is ready. After Event::kSuccessor.
  const std::string& failure() const noexcept { return failure_; }
  /// Hands the mount over. This process must already have stopped taking requests.
  /// @param descriptors as kHandedNames; -1 for what there is not.
  /// @return whether the process serves it; if not, it has ended, and the mount is this one's
  /// still.
  bool give(const std::array<int, kHandedNames.size()>& descriptors) noexcept;

 private:
  void talk() noexcept;
  std::string ask();
  void end_process() noexcept;

  const WakePipe& events_;
  const SuccessorOffer offer_;
  HandoverSocket socket_{Descriptor(-1)};
  pid_t process_ = -1;
  bool given_ = false;
  std::atomic<bool> ended_ = false;  ///< by the destructor
  std::string failure_;              ///< of the thread, until it has ended
  std::thread thread_;
};

}  // namespace reshardfs
