// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "cli/process_start.h"

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

void keep_memory_for_cleaning_up() noexcept {
  std::free(reserve.exchange(std::malloc(kReserve)));
  std::set_new_handler(give_up_reserve);
}

}  // namespace reshardfs
