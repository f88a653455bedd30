// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reshardfs {

/// Tells the service manager that started this process how it is, as sd_notify(3) does: lines such
/// as READY=1 or STATUS=TEXT. Nothing if $NOTIFY_SOCKET names no such manager; a manager that does
/// not listen is no reason to stop.
void notify_service_manager(const std::string& state) noexcept;

}  // namespace reshardfs
