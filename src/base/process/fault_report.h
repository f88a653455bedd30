// SPDX-License-Identifier: Apache-2.0
/// How layers that keep no log tell of faults that they have got around.
#pragma once

#include <string>

#include "base/engine.h"
#include "base/process/log_event.h"

namespace reshardfs {

/// Must not throw; may be called by any thread, and again and again with the same cause.
using FaultListener = void (*)(LogEvent event, const std::string& cause, const std::string& text);

/// Call this before any thread reports; nullptr: no listener.
RESHARDFS_ENGINE void set_fault_listener(FaultListener listener) noexcept;

/// @param cause is the same for all faults that are worth one report.
void report_fault(LogEvent event, const std::string& cause, const std::string& text) noexcept;

}  // namespace reshardfs
