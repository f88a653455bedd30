// SPDX-License-Identifier: Apache-2.0
/// The interface of libfuse and the kernel for files that the kernel reads itself (libfuse 3.17,
/// Linux 6.9). With an older libfuse it compiles, and reports that passthrough is not available.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "fuse/libfuse.h"
#include "fuse/mounting/backing_files.h"

namespace reshardfs {

/// Whether libfuse was recent enough when the program was built.
bool is_passthrough_built() noexcept;

/// Call this while INIT is being answered: asks the kernel for passthrough.
/// @return whether it can.
bool want_passthrough(fuse_conn_info& connection) noexcept;

/// The kernel's list for the connection of `device` (/dev/fuse), which is read on each use.
BackingFiles::Kernel kernel_backing_files(const int& device);

/// The state of passthrough for one mount.
struct Passthrough {
  /// /dev/fuse of the session, which is there before the first request.
  int device = -1;
  /// Whether the kernel may read sources itself. Set when INIT comes.
  std::atomic<bool> on = false;
  /// Never nullptr.
  std::unique_ptr<BackingFiles> files =
      std::make_unique<BackingFiles>(kernel_backing_files(device));
};

/// Lets the kernel answer the reads of an opening.
void read_from_backing_file(fuse_file_info& info, std::int32_t number) noexcept;

/// Logs in one line why there is no passthrough, if there is none.
void explain_passthrough(Passthrough& passthrough) noexcept;

}  // namespace reshardfs
