// SPDX-License-Identifier: Apache-2.0
#include "base/process/fault_report.h"

#include <atomic>

namespace reshardfs {
namespace {

std::atomic<FaultListener> current_listener = nullptr;

}  // namespace

void set_fault_listener(FaultListener listener) noexcept {
  current_listener = listener;
}

void report_fault(LogEvent event, const std::string& cause, const std::string& text) noexcept {
  const FaultListener listener = current_listener;
  if (listener != nullptr) listener(event, cause, text);
}

}  // namespace reshardfs
