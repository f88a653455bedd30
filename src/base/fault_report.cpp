// SPDX-License-Identifier: Apache-2.0
#include "base/fault_report.h"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace reshardfs {
namespace {

std::atomic<FaultListener> current_listener = nullptr;
std::atomic<std::int64_t> next_second = 0;

}  // namespace

void set_fault_listener(FaultListener listener) noexcept {
  current_listener = listener;
}

void report_fault(const std::string& text) noexcept {
  const FaultListener listener = current_listener;
  if (listener == nullptr) return;
  using std::chrono::duration_cast;
  using std::chrono::seconds;
  const std::int64_t now =
      duration_cast<seconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  std::int64_t next = next_second;
  if (now >= next && next_second.compare_exchange_strong(next, now + 1)) listener(text);
}

}  // namespace reshardfs
