// SPDX-License-Identifier: Apache-2.0
/// What libfuse and fusermount3 say when they refuse a mount, and the errors that become of it.
#pragma once

#include <optional>
#include <string>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"

namespace reshardfs {

/// Captures standard error while it exists, including that of child processes: libfuse runs
/// fusermount3, which writes its reasons there. Use it while no other thread writes. If it cannot
/// get memory, standard error is not captured.
class CapturedStderr {
 public:
  CapturedStderr() noexcept;
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;
  /// Writes the captured text to standard error, unless finish() was called.
  ~CapturedStderr();

  /// Ends the capture. @return the captured text.
  std::string finish();

 private:
  void restore() noexcept;

  const Descriptor text_;             ///< a file in memory, because writing to a pipe may block
  std::optional<Descriptor> former_;  ///< standard error as it was; none: nothing is captured
};

/// @param told libfuse's message about unknown mount options.
Error unknown_mount_option(const std::string& told);

/// @param told the messages of libfuse and fusermount3; may be empty.
Error cannot_mount(const std::string& told);

}  // namespace reshardfs
