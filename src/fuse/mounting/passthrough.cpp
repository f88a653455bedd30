// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/passthrough.h"

#include <linux/fuse.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <exception>

#include "fuse/event_log.h"

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17) && defined(FUSE_DEV_IOC_BACKING_OPEN)
#define RESHARDFS_PASSTHROUGH 1
#else
#define RESHARDFS_PASSTHROUGH 0
#endif

namespace reshardfs {

bool is_passthrough_built() noexcept {
  return RESHARDFS_PASSTHROUGH != 0;
}

#if RESHARDFS_PASSTHROUGH

bool want_passthrough(fuse_conn_info& connection) noexcept {
  if ((connection.capable & FUSE_CAP_PASSTHROUGH) == 0) return false;
  connection.want |= FUSE_CAP_PASSTHROUGH;
  // So that other file systems (overlayfs) can still be stacked on the mount.
  connection.max_backing_stack_depth = FUSE_BACKING_STACKED_UNDER;
  return true;
}

// libfuse's own functions need a request, of which there is none any more when the answer to an
// opening is refused, and log a failure without telling its errno.
BackingFiles::Kernel kernel_backing_files(const int& device) {
  return {.add = [&device](int descriptor) -> std::int32_t {
            fuse_backing_map map{};
            map.fd = descriptor;
            const int number = ::ioctl(device, FUSE_DEV_IOC_BACKING_OPEN, &map);
            return number > 0 ? number : -errno;
          },
          .remove =
              [&device](std::int32_t number) {
                // It fails only if the connection is gone, and the number with it.
                ::ioctl(device, FUSE_DEV_IOC_BACKING_CLOSE, &number);
              }};
}

#else

bool want_passthrough(fuse_conn_info&) noexcept {
  return false;
}

BackingFiles::Kernel kernel_backing_files(const int&) {
  return {.add = [](int) -> std::int32_t { return -EOPNOTSUPP; }, .remove = [](std::int32_t) {}};
}

#endif

void read_from_backing_file(fuse_file_info& info, [[maybe_unused]] std::int32_t number) noexcept {
#if RESHARDFS_PASSTHROUGH
  info.backing_id = number;
#endif
  // The kernel would let direct_io win, and refuses to keep a cache beside the source's own.
  info.direct_io = 0;
  info.keep_cache = 0;
}

void explain_passthrough(Passthrough& passthrough) noexcept {
  try {
    if (passthrough.on) {
      passthrough.files->try_out();
    } else if (RESHARDFS_PASSTHROUGH == 0) {
      log_warning(
          LogEvent::kPassthroughOff,
          "no passthrough: reshardfs was built with libfuse {}.{}, and 3.17 has it; reads go "
          "through reshardfs",
          FUSE_MAJOR_VERSION, FUSE_MINOR_VERSION);
    } else {
      log_warning(
          LogEvent::kPassthroughOff,
          "no passthrough: this kernel does not have it (Linux 6.9 and later can); reads go "
          "through reshardfs");
    }
  } catch (const std::exception&) {
    // The mount works without the line, too.
  }
}

}  // namespace reshardfs
