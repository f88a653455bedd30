// SPDX-License-Identifier: Apache-2.0
#include "storage/local/mapped_gather.h"

#include <sys/mman.h>

#include <atomic>
#include <csetjmp>
#include <csignal>

#include "base/posix/page_size.h"

namespace reshardfs {
namespace {

/// The pages that a thread is copying from, and where it goes on if one cannot be read.
struct Guard {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  sigjmp_buf give_up{};
};

// Written before and read by a handler of the same thread.
constinit thread_local Guard* volatile current_guard = nullptr;
struct sigaction previous_action {};

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    ::sigaction(signal, &previous_action, nullptr);
    // As if this handler had not been there: a fault happens again, a signal is sent again.
    if (info->si_code <= 0) static_cast<void>(::raise(signal));
  } else {
    previous_action.sa_handler(signal);
  }
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  Guard* const guard = current_guard;
  const auto* const address = static_cast<const std::byte*>(info->si_addr);
  const bool own =
      guard != nullptr && info->si_code > 0 && address >= guard->begin && address < guard->end;
  if (own) siglongjmp(guard->give_up, 1);
  pass_on(signal, info, context);
}

bool install_handler() noexcept {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  return ::sigaction(SIGBUS, &action, &previous_action) == 0;
}

/// The kernel kills a process whose own fault raises a signal that the thread has blocked.
bool unblock_signal() noexcept {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGBUS);
  return ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr) == 0;
}

/// Has no object with a destructor: a jump would pass it over.
bool copy_guarded(Guard& guard, const std::byte* from, const StridedRanges& ranges,
                  std::byte* out) noexcept {
  // The mask is kept too: the signal is blocked in its handler.
  constexpr int kKeepMask = 1;
  if (sigsetjmp(guard.give_up, kKeepMask) != 0) {
    current_guard = nullptr;
    return false;
  }
  current_guard = &guard;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  copy_ranges(from, ranges, out);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  current_guard = nullptr;
  return true;
}

}  // namespace

bool gather_from_memory(std::span<const std::byte> map, const std::byte* first,
                        const StridedRanges& ranges, std::byte* out) noexcept {
  static const bool installed = install_handler();
  thread_local const bool unblocked = unblock_signal();
  if (!installed || !unblocked) return false;
  // Faults are reported by the byte or by the page: the last page belongs to the map as a whole.
  Guard guard{.begin = map.data(), .end = map.data() + whole_pages(map.size())};
  return copy_guarded(guard, first, ranges, out);
}

bool gather_from_map(int fd, const StridedRanges& ranges, std::byte* out) noexcept {
  const std::uint64_t skip = ranges.offset() % page_bytes();
  const auto bytes = static_cast<std::size_t>(skip + ranges.span().length());
  void* const map =
      ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(ranges.offset() - skip));
  if (map == MAP_FAILED) return false;
  const auto* const begin = static_cast<const std::byte*>(map);
  const bool copied = gather_from_memory({begin, bytes}, begin + skip, ranges, out);
  ::munmap(map, bytes);
  return copied;
}

}  // namespace reshardfs
