// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "reshardfs/conversion.h"

namespace reshardfs {

/// Writes a file so that its name never stands for half of it: see PartialFile.
/// @param replace whether a file of that name may be replaced.
/// @throws Error kUsage if it exists and may not be replaced, kMissing if there is no directory for
///         it, kIo.
void write_file(const std::filesystem::path& path, std::string_view bytes, bool replace);

/// Writes what `produce` gives to the sink to a file, in the same way; or to standard output if
/// `output` is "-".
void write_output(const std::string& output, bool replace,
                  const std::function<void(const TextSink&)>& produce);

}  // namespace reshardfs
