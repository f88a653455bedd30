// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reshardfs {

/// Ends the process where the threads of libraries may run: what libraries do when a process ends
/// would take from under those threads what they use. Otherwise returns the code for main().
int leave(int exit_code) noexcept;

}  // namespace reshardfs
