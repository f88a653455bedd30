// SPDX-License-Identifier: Apache-2.0
#include "base/posix/page_size.h"

#include <unistd.h>

namespace reshardfs {

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace reshardfs
