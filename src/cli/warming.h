// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/posix/descriptor.h"

namespace reshardfs {

/// Reads the files, shows the progress on standard error, and prints what was read. A
/// signal ends the process, as there is nothing to be left in order.
/// @param threads 0: a number that suits the machine.
/// @param quiet prints errors and warnings only.
/// @return the exit code: kExitIo if a file could not be read.
/// @throws Error as files_to_warm() and require_memory_for() do.
int warm_paths(const std::vector<std::filesystem::path>& paths, std::size_t threads, bool quiet);

/// A process that reads files of a mount which this process is going to serve: one that reads its
/// own mount could not be killed. It ends without having read anything if this process ends before
/// begin().
class WarmingProcess {
 public:
  /// To be made before there are threads. @throws Error kIo
  WarmingProcess(std::vector<std::filesystem::path> paths, bool quiet);
  /// The mount is live. Does nothing the second time.
  void begin() noexcept;

 private:
  Descriptor start_;  ///< of a pipe
};

}  // namespace reshardfs
