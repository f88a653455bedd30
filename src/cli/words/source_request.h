// SPDX-License-Identifier: Apache-2.0
/// What a command line says of a source. The only place that reads it.
#pragma once

#include <filesystem>
#include <string>

#include "reshardfs/source_request.h"

#include "cli/words/given.h"

namespace reshardfs {

/// All of it; what the command has no option for keeps its default. --map auto is settled, which
/// opens the source.
/// @param path the source, as absolute_source() or located() return it.
/// @param side of a command with two sources: "a-" for --a-strategy and so on.
/// @throws Error kMissing for a file that is not there, kUsage for values that do not go together;
///         errors of settle_auto_map().
SourceRequest source_request(const Given& given, std::filesystem::path path,
                             const std::string& side = "");

/// The same without strategy and maps: what opens the set.
SourceRequest set_request(const Given& given, std::filesystem::path path,
                          const std::string& side = "");

}  // namespace reshardfs
