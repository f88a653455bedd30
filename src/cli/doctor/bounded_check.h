// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "cli/doctor/finding.h"

namespace reshardfs {

/// Checks in a child process, which is left to itself when the time is over: a file system whose
/// server is gone, or a server that is silent, holds up nothing. What the child has opened, set up
/// and started is gone with it. To be used while the process has one thread.
class BoundedChecks {
 public:
  explicit BoundedChecks(std::chrono::seconds limit) noexcept : limit_(limit) {}

  std::chrono::seconds limit() const noexcept { return limit_; }

  /// @param name of the finding if `check` throws an Error, or does not end in time.
  /// @param what it looks at, for the message that says so.
  Findings run(const std::string& name, const std::string& what,
               const std::function<Findings()>& check) const;

 private:
  std::chrono::seconds limit_;
};

}  // namespace reshardfs
