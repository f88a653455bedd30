// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "storage/descriptor_pool.h"

namespace reshardfs {

/// Takes what is written to standard error while it lives, also by programs that are started
/// meanwhile: libfuse runs fusermount3, which tells its reasons there. To be used while no other
/// thread writes. Where no room for it can be had, what is written goes where it always does.
class CapturedStderr {
 public:
  CapturedStderr() noexcept;
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;
  /// Writes to standard error what finish() has not taken.
  ~CapturedStderr();

  /// Ends it. @return what was written.
  std::string finish();

 private:
  void restore() noexcept;

  const Descriptor text_;  ///< a file in memory: who writes to it never waits, as for a pipe
  std::optional<Descriptor> former_;  ///< standard error as it was; none: nothing is captured
};

}  // namespace reshardfs
