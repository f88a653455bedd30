// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include "daemon/process/process_start.h"

namespace reshardfs {
namespace {

// So large that the C library has it from the system by itself, and gives it back.
constexpr std::size_t kReserve = std::size_t{256} << 10U;

std::atomic<void*> reserve{nullptr};

[[noreturn]] void give_up_reserve() {
  std::free(reserve.exchange(nullptr));
  throw std::bad_alloc();
}

}  // namespace

bool keep_memory_for_cleaning_up() noexcept {
  void* kept = std::malloc(kReserve);
  std::free(reserve.exchange(kept));
  std::set_new_handler(give_up_reserve);
  return kept != nullptr;
}

void complain_of_memory() noexcept {
  constexpr std::array<std::pair<decltype(RLIMIT_AS), const char*>, 2> kLimits{
      {{RLIMIT_DATA, "ulimit -d"}, {RLIMIT_AS, "ulimit -v"}}};
  std::array<char, 200> text{};
  std::size_t length = 0;
  const auto add = [&](const char* format, auto... values) {
    const int count = std::snprintf(text.data() + length, text.size() - length, format, values...);
    if (count > 0) length = std::min(text.size() - 1, length + static_cast<std::size_t>(count));
  };
  add("%s", "reshardfs: out of memory");
  const char* separator = "; raise the limit: ";
  for (const auto& [resource, name] : kLimits) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    add("%s%s (now %llu KiB)", separator, name,
        static_cast<unsigned long long>(limit.rlim_cur / 1024));
    separator = ", ";
  }
  add("%s", "\n");
  static_cast<void>(!::write(STDERR_FILENO, text.data(), length));
}

}  // namespace reshardfs
