// SPDX-License-Identifier: Apache-2.0
/// What the program tells another program that runs it: lines of JSON on the descriptor that
/// RESHARDFS_MESSAGES has the number of. Without it nothing is told.
#pragma once

#include <string>

#include "reshardfs/error.h"

#include "base/engine.h"
#include "base/process/progress.h"

namespace reshardfs {

/// Whether somebody listens.
bool has_listener() noexcept;
/// The descriptor; -1: no program listens.
int listener_descriptor() noexcept;

/// {"error": {"kind", "path", "parameter", "rank", "hint", "message", "text"}}; what is not known
/// is null. `text` is the line on standard error.
void tell_error(const Error& error) noexcept;
/// The same of an error that has nothing but its text.
void tell_error(ErrorKind kind, const std::string& text) noexcept;
/// {"progress": {"phase", "bytes", "total_bytes", "files", "total_files", "file"}}
void tell_progress(const Progress::Values& values) noexcept;

/// "usage", "bad input", "missing", "unsupported", "io", "changed" or "internal".
RESHARDFS_ENGINE const char* name_of(ErrorKind kind) noexcept;

}  // namespace reshardfs
