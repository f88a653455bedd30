// SPDX-License-Identifier: Apache-2.0
/// Tells what lies at a path from what has lain there before, without opening a file.
#pragma once

#include <filesystem>
#include <string>

namespace reshardfs {

/// Of a directory: changes when it is replaced, and when an entry is added, removed or renamed in
/// it. Of a file: changes when it is replaced or written. Takes one system call; symbolic links are
/// followed. Empty: nothing is there.
/// @throws Error kIo if it cannot be examined.
std::string path_stamp(const std::filesystem::path& path);

/// The same for all that lies below a directory, a few levels deep; of a file as path_stamp().
/// @throws Error kIo if something cannot be examined.
std::string tree_stamp(const std::filesystem::path& path);

}  // namespace reshardfs
