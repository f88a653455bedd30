// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <string>

namespace reshardfs {

/// Identifies this version of a file on a mounted file system by the file system's id, path, inode,
/// size and both times. If the file system has an id, the identity survives a restart of the
/// machine or the file system.
///
/// Calls statfs(2), which may wait for a server on a network.
/// @param path is made absolute, so call this before the process leaves its working directory.
/// @param found of the open file.
/// @param now when `found` was taken, or later.
/// @return empty if the file was written less than two seconds ago, or in the future: another write
///         might leave the same times.
std::string local_identity(
    const std::string& path, const struct stat& found,
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

}  // namespace reshardfs
