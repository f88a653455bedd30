// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/process_start.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

namespace reshardfs {
namespace {

std::array<std::atomic<bool>, STDERR_FILENO + 1> unused;

/// A descriptor with the lowest free number. It has to be neither readable nor writable, as the
/// closed one was: what is meant for it must not seem to have arrived.
int open_nothing() noexcept {
  const int fd = ::open("/", O_PATH | O_DIRECTORY);
  return fd >= 0 ? fd : ::open("/dev/null", O_RDONLY);
}

}  // namespace

void occupy_standard_streams() noexcept {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // Those below it are open, so this is its number.
    if (open_nothing() == stream) unused.at(static_cast<std::size_t>(stream)) = true;
  }
}

bool is_unused(int stream) noexcept {
  return stream >= STDIN_FILENO && stream <= STDERR_FILENO &&
         unused.at(static_cast<std::size_t>(stream));
}

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

namespace {

// Ten times what has been seen.
constexpr std::size_t kEnough = std::size_t{1} << 20U;

/// The C library takes the limit that the program was started with.
bool give_threads_enough() noexcept {
  pthread_attr_t attributes{};
  if (::pthread_getattr_default_np(&attributes) != 0) return false;
  std::size_t bytes = 0;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  const bool good = bytes >= kEnough || (::pthread_attr_setstacksize(&attributes, kEnough) == 0 &&
                                         ::pthread_setattr_default_np(&attributes) == 0);
  ::pthread_attr_destroy(&attributes);
  return good;
}

}  // namespace

bool has_enough_stack() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0) return true;
  if (limit.rlim_cur < kEnough) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, kEnough);
    if (limit.rlim_cur < kEnough || ::setrlimit(RLIMIT_STACK, &limit) != 0) return false;
  }
  return give_threads_enough();
}

}  // namespace reshardfs
