// SPDX-License-Identifier: Apache-2.0
#include "daemon/warming/cached_bytes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

#include "reshardfs/error.h"

#include "base/process/resource_limits.h"

namespace reshardfs {
namespace {

// The headers of Debian 12 lack both; the number is the same on all processors but alpha.
#ifdef SYS_cachestat
constexpr long kCachestat = SYS_cachestat;
#else
constexpr long kCachestat = 451;
#endif

/// struct cachestat_range; length 0 is up to the end of the file.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// struct cachestat, in pages.
struct Pages {
  std::uint64_t cached = 0;
  std::uint64_t dirty = 0;
  std::uint64_t written_back = 0;
  std::uint64_t evicted = 0;
  std::uint64_t recently_evicted = 0;
};

}  // namespace

std::optional<std::uint64_t> cached_bytes(int file) noexcept {
  Range all;
  Pages found;
  if (::syscall(kCachestat, file, &all, &found, 0U) != 0) return std::nullopt;
  return found.cached * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t available_memory() {
  constexpr const char* kFile = "/proc/meminfo";
  std::ifstream file(kFile);
  for (std::string key; file >> key;) {
    std::uint64_t kib = 0;
    if (key == "MemAvailable:" && file >> kib) return std::min(kib << 10U, memory_size());
    std::getline(file, key);
  }
  throw io_error("find out the available memory", kFile, EIO);
}

}  // namespace reshardfs
