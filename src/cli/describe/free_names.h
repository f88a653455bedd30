// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace reshardfs {

/// A name in the working directory that nothing has: "mnt", "mnt-2".
std::string free_name(const std::string& stem, const std::string& extension = "");

/// A directory that a source can be mounted on when it has been made: in the working directory, or
/// with other temporary ones if that lies in the source or cannot be written.
/// @param source absolute, or a URL.
std::string free_mountpoint(const std::filesystem::path& source);

/// A place for an export that is not in its source: in the working directory, or beside the source
/// if that lies in the source or cannot be written.
/// @param source absolute, or a URL.
/// @param extension of a file, with its dot; empty: a directory.
std::string free_output(const std::filesystem::path& source, const std::string& extension);

}  // namespace reshardfs
