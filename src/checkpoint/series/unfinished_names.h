// SPDX-License-Identifier: Apache-2.0
/// Names that tools give to unfinished files: copies, downloads, saves.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "storage/local/directory.h"

namespace reshardfs {

struct UnfinishedName {
  std::string finished;   ///< the file's name at the end
  bool in_place = false;  ///< the file already has its final name, but is incomplete
};

/// - "net.ckpt.tmp" and, in place of the extension, "net.tmp": as MindSpore saves. `finished` is
///   then "net".
/// - "net.ckpt.part" and the like of browsers, curl and clients of stores; "net.ckpt.incomplete" of
///   the Hugging Face hub.
/// - ".net.ckpt.a1B2c3" of rsync.
/// - "net.ckpt.aria2" of aria2, which writes into net.ckpt itself.
/// @return nullopt if the name is not one of an unfinished file.
std::optional<UnfinishedName> unfinished_name(std::string_view name);

/// Looks at a directory whose data files have one extension.
/// @return warnings about unfinished files, one line each.
/// @throws Error kBadInput for an incomplete file that already has its final name.
std::vector<std::string> unfinished_files(const std::filesystem::path& directory,
                                          const std::vector<DirectoryEntry>& entries,
                                          std::string_view extension);

/// The error for a file that is being downloaded in place.
Error still_downloaded(const std::filesystem::path& file);

}  // namespace reshardfs
