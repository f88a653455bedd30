// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <string>

namespace reshardfs {

/// Tells this version of a file of this machine, or of a file system that it has mounted, from all
/// others, of all files: by the file system's own id, path, inode, size and both times. It stays
/// the same when the machine or the file system is started anew, where that has an id.
///
/// Costs a call of statfs(2), which on a network may wait for the server.
/// @param path is made absolute: to be called before the process leaves its working directory.
/// @param found of the open file.
/// @param now when `found` was taken, or later.
/// @return empty if the file was written less than two seconds ago, or in the future: another write
///         might leave the same times.
std::string local_identity(
    const std::string& path, const struct stat& found,
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

}  // namespace reshardfs
