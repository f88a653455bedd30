// SPDX-License-Identifier: Apache-2.0
/// What the options of several commands mean.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "reshardfs/model_map.h"
#include "reshardfs/sizes.h"

#include "cli/words/given.h"
#include "daemon/process/log.h"

namespace reshardfs {

LogSettings log_settings(const Given& given);
/// Of a command that has --log-format, before its values have been checked, too.
LogFormat log_format(const Given& given);

/// Sets up how sources are reached that are not files of this machine. To be called before the
/// first source is named.
/// @throws Error kMissing if the file of certificates is not there, kUsage if the process reads
/// from another store already.
void apply_storage(const Given& given);

/// A source as it was given: a URL or a list of URLs as storage/location.h has it; a path stays,
/// but for snapshot_or().
std::string located(const std::string& source);

/// The path that an option names, absolute; nothing for no text and "none".
/// @param takes what the option takes, for messages.
/// @throws Error kMissing with the option if there is nothing.
std::optional<std::filesystem::path> existing_path(
    const Given& given, const std::string& option,
    const std::string& takes = "a strategy file or a directory of them");

/// Model maps and what belongs to them, with paths made absolute. A command that has no --map takes
/// a map as its argument.
/// @param side of a command with two sources: "a-" for --a-map and so on.
/// @throws Error kMissing for a configuration that is not there.
ModelMapOptions model_maps(const Given& given, const std::string& side = "");
struct NamedStrategy {
  std::optional<std::filesystem::path> path{};
  DerivedSizes sizes{};
};

/// What an option for a strategy names: sizes, or a path as existing_path() returns it. An existing
/// file wins over a text that could be sizes.
/// @throws Error kUsage for sizes that are wrong; as existing_path().
NamedStrategy named_strategy(const Given& given, const std::string& option,
                             const std::string& takes = "a strategy file or a directory of them");

}  // namespace reshardfs
