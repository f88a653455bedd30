// SPDX-License-Identifier: Apache-2.0
/// How layers that keep no log tell of faults that they have got around.
#pragma once

#include <string>

namespace reshardfs {

/// Must not throw; may be called by any thread.
using FaultListener = void (*)(const std::string& text);

/// Before any thread reports; nullptr: nobody listens.
void set_fault_listener(FaultListener listener) noexcept;

/// Tells the listener, but at most once a second: a fault mostly meets many reads.
void report_fault(const std::string& text) noexcept;

}  // namespace reshardfs
