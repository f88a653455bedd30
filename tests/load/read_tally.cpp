// SPDX-License-Identifier: Apache-2.0
#include "read_tally.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>
#include <type_traits>

namespace load {

static_assert(std::is_trivially_copyable_v<Tally> && std::endian::native == std::endian::little);

void Tally::note(std::chrono::nanoseconds duration) noexcept {
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
  const auto bits = static_cast<std::size_t>(std::bit_width(count));
  const std::size_t exponent = bits > 5 ? bits - 5 : 0;
  const std::uint64_t mantissa = count >> exponent;
  const std::size_t bucket = 16 * exponent + (mantissa > 16 ? mantissa - 16 : 0);
  ++durations[std::min(bucket, kBuckets - 1)];
  slowest_ns = std::max(slowest_ns, count);
}

Tally& map_tally(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const auto fail = [&file] {
    throw std::system_error(errno, std::generic_category(), file.string());
  };
  if (fd < 0 || ::ftruncate(fd, sizeof(Tally)) != 0) fail();
  void* const map = ::mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) fail();
  ::close(fd);
  return *static_cast<Tally*>(map);
}

}  // namespace load
