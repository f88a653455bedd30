// SPDX-License-Identifier: Apache-2.0
// What the program, and Debian 12's static libstdc++ and libgcc_eh, use of a glibc newer than 2.28.
// Only the portable packages have it: see portable.cmake.
#include <pthread.h>
#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>

#include <dlfcn.h>
#include <link.h>

extern "C" {

// 2.32. libstdc++ asks whether counting references needs atomic instructions: always.
extern const char __libc_single_threaded;
const char __libc_single_threaded = 0;

// 2.36, of std::random_device and libexpat.
void arc4random_buf(void* out, std::size_t size) {
  auto* place = static_cast<std::byte*>(out);
  while (size > 0) {
    const ssize_t got = getrandom(place, size, 0);
    if (got < 0) continue;  // by a signal
    place += got;
    size -= static_cast<std::size_t>(got);
  }
}

std::uint32_t arc4random() {
  std::uint32_t value = 0;
  arc4random_buf(&value, sizeof value);
  return value;
}

// 2.35, of libgcc's unwinder: what is loaded at an address, and the table of its frames.
int _dl_find_object(void* address, dl_find_object* result) {
  struct Search {
    std::uintptr_t address;
    dl_find_object* result;
  };
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) -> int {
    const auto* search = static_cast<const Search*>(data);
    std::uintptr_t first = UINTPTR_MAX;
    std::uintptr_t last = 0;
    std::uintptr_t table = 0;
    bool is_here = false;
    for (const auto* part = info->dlpi_phdr; part != info->dlpi_phdr + info->dlpi_phnum; ++part) {
      const std::uintptr_t begin = info->dlpi_addr + part->p_vaddr;
      const std::uintptr_t end = begin + part->p_memsz;
      if (part->p_type == PT_GNU_EH_FRAME) table = begin;
      if (part->p_type != PT_LOAD) continue;
      if (begin < first) first = begin;
      if (end > last) last = end;
      is_here = is_here || (search->address >= begin && search->address < end);
    }
    if (!is_here || table == 0) return 0;
    *search->result = {};
    search->result->dlfo_map_start = reinterpret_cast<void*>(first);
    search->result->dlfo_map_end = reinterpret_cast<void*>(last);
    search->result->dlfo_eh_frame = reinterpret_cast<void*>(table);
    return 1;
  };
  Search search{reinterpret_cast<std::uintptr_t>(address), result};
  return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}

// Until a time of `clock`, by the clock of the day: if that is set meanwhile, early or late by as
// much.
static int wait_by_day(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                       const timespec* until) {
  constexpr long kSecond = 1'000'000'000;
  timespec now{};
  timespec at{};
  if (clock_gettime(clock, &now) != 0) return EINVAL;
  clock_gettime(CLOCK_REALTIME, &at);
  at.tv_sec += until->tv_sec - now.tv_sec;
  at.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (at.tv_nsec < 0) {
    at.tv_nsec += kSecond;
    --at.tv_sec;
  } else if (at.tv_nsec >= kSecond) {
    at.tv_nsec -= kSecond;
    ++at.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &at);
}

// 2.30, of std::condition_variable. Where glibc has it, that is what runs. Who wakes early asks
// again.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static auto* const real =
      reinterpret_cast<decltype(&wait_by_day)>(dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  return (real != nullptr ? real : &wait_by_day)(condition, mutex, clock, until);
}

// 2.32. Others are shown as a number.
const char* strerrorname_np(int error) {
#define NAMED(name) \
  { name, #name }
  static constexpr struct {
    int error;
    const char* name;
  } kNames[] = {NAMED(EPERM),        NAMED(ENOENT),    NAMED(EINTR),        NAMED(EIO),
                NAMED(ENXIO),        NAMED(E2BIG),     NAMED(EBADF),        NAMED(ECHILD),
                NAMED(EAGAIN),       NAMED(ENOMEM),    NAMED(EACCES),       NAMED(EFAULT),
                NAMED(EBUSY),        NAMED(EEXIST),    NAMED(EXDEV),        NAMED(ENODEV),
                NAMED(ENOTDIR),      NAMED(EISDIR),    NAMED(EINVAL),       NAMED(ENFILE),
                NAMED(EMFILE),       NAMED(ENOTTY),    NAMED(ETXTBSY),      NAMED(EFBIG),
                NAMED(ENOSPC),       NAMED(ESPIPE),    NAMED(EROFS),        NAMED(EMLINK),
                NAMED(EPIPE),        NAMED(ERANGE),    NAMED(EDEADLK),      NAMED(ENAMETOOLONG),
                NAMED(ENOSYS),       NAMED(ENOTEMPTY), NAMED(ELOOP),        NAMED(ENODATA),
                NAMED(ETIME),        NAMED(EREMOTE),   NAMED(EPROTO),       NAMED(EBADMSG),
                NAMED(EOVERFLOW),    NAMED(EILSEQ),    NAMED(ENOTSOCK),     NAMED(EOPNOTSUPP),
                NAMED(EADDRINUSE),   NAMED(ENETDOWN),  NAMED(ENETUNREACH),  NAMED(ECONNABORTED),
                NAMED(ECONNRESET),   NAMED(ENOTCONN),  NAMED(ESHUTDOWN),    NAMED(ETIMEDOUT),
                NAMED(ECONNREFUSED), NAMED(EHOSTDOWN), NAMED(EHOSTUNREACH), NAMED(EALREADY),
                NAMED(EINPROGRESS),  NAMED(ESTALE),    NAMED(EDQUOT),       NAMED(ECANCELED),
                NAMED(EREMOTEIO)};
#undef NAMED
  for (const auto& known : kNames) {
    if (known.error == error) return known.name;
  }
  return nullptr;
}

// 2.29: pow() that sets no errno. With -Wl,--wrap=pow.
double old_pow(double base, double exponent);
#if defined(__x86_64__)
__asm__(".symver old_pow, pow@GLIBC_2.2.5");
#else
__asm__(".symver old_pow, pow@GLIBC_2.17");
#endif
double __wrap_pow(double base, double exponent) {
  return old_pow(base, exponent);
}

}  // extern "C"
