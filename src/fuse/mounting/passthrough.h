// SPDX-License-Identifier: Apache-2.0
/// What libfuse and the kernel have for files that the kernel reads itself (libfuse 3.17, Linux
/// 6.9). With an older libfuse this compiles, and says that it cannot be done.
#pragma once

#include <atomic>
#include <cstdint>

#include "fuse/libfuse.h"
#include "fuse/mounting/backing_files.h"

namespace reshardfs {

/// To be called while INIT is answered: asks the kernel for it.
/// @return whether it can.
bool want_passthrough(fuse_conn_info& connection) noexcept;

/// The list of the connection whose /dev/fuse `device` is; read when it is used.
BackingFiles::Kernel kernel_backing_files(const int& device);

/// Of one mount.
struct Passthrough {
  /// /dev/fuse of the session, which is there before the first request.
  int device = -1;
  /// Whether the kernel may read sources itself. Set when INIT comes.
  std::atomic<bool> on = false;
  BackingFiles files{kernel_backing_files(device)};
};

/// Lets the kernel answer the reads of an opening.
void read_from_backing_file(fuse_file_info& info, std::int32_t number) noexcept;

/// Says in one line why nothing will be passed through, if so.
void explain_passthrough(Passthrough& passthrough) noexcept;

}  // namespace reshardfs
