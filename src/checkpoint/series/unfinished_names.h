// SPDX-License-Identifier: Apache-2.0
/// Names that tools give to files which they have not finished: a copy, a download, a save.
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
  bool in_place = false;  ///< the file has it already, with bytes that are not there yet
};

/// - "net.ckpt.tmp" and, in place of the extension, "net.tmp": as MindSpore saves. `finished` is
///   then "net".
/// - "net.ckpt.part" and the like of browsers, curl and clients of stores; "net.ckpt.incomplete" of
///   the Hugging Face hub.
/// - ".net.ckpt.a1B2c3" of rsync.
/// - "net.ckpt.aria2" of aria2, which writes into net.ckpt itself.
/// @return nothing if the name tells of no such file.
std::optional<UnfinishedName> unfinished_name(std::string_view name);

/// Looks at a directory whose data files have one extension.
/// @return what to warn of: files that are on their way, one line each.
/// @throws Error kBadInput with the file for one that is there with bytes that are not.
std::vector<std::string> unfinished_files(const std::filesystem::path& directory,
                                          const std::vector<DirectoryEntry>& entries,
                                          std::string_view extension);

/// Of a file that is being downloaded in place.
Error still_downloaded(const std::filesystem::path& file);

}  // namespace reshardfs
