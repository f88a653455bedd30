// SPDX-License-Identifier: Apache-2.0
/// Sources that fail for a while: because they are being written, or do not answer.
#pragma once

#include <filesystem>
#include <functional>

#include "reshardfs/error.h"

namespace reshardfs {

/// Whether an error is about files of the source, rather than about options or other files.
/// @param source absolute.
bool is_of_source(const Error& error, const std::filesystem::path& source);

/// For a mount that goes on: calls `attempt` until it succeeds, or fails of something else than its
/// source: one that does not answer (EIO, ESTALE, a timeout), or one that is not whole for 20
/// seconds, as while it is copied or renamed. Any other failure is tried once again, since an
/// error of the source may have hidden what is there. Says on the log, and to a service manager,
/// what it waits for.
/// @param may_go_on is asked before each new attempt.
/// @throws Error of the last attempt.
int outlast_outage(const std::filesystem::path& source, const std::function<int()>& attempt,
                   const std::function<bool()>& may_go_on);

}  // namespace reshardfs
