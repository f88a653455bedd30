// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reshardfs {

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  bool is_regular = false;  ///< symbolic links are followed
  bool is_link = false;     ///< it is one, whatever it leads to
};

enum class PathKind : std::uint8_t { kMissing, kDirectory, kOther };

/// What stands at `path`; symbolic links are followed (one that leads nowhere: kMissing).
/// @throws Error kIo if it cannot be examined.
PathKind path_kind(const std::filesystem::path& path);

/// Whether `path` itself is a symbolic link.
/// @throws Error kIo if it cannot be examined; what does not exist is none.
bool is_link(const std::filesystem::path& path);

/// Whether `inner` is `outer` or lies below it: by name, and by what the names stand for, as a bind
/// mount shows one directory under two. What does not exist (yet) is passed over.
/// @param inner absolute, as is outer.
bool is_inside(const std::filesystem::path& inner, const std::filesystem::path& outer);

/// The entries of a directory without "." and "..", sorted by name (bytes).
/// @throws Error kMissing, kBadInput (no directory) or kIo.
std::vector<DirectoryEntry> list_directory(const std::filesystem::path& path);

/// The whole of a small file (a strategy, a configuration).
/// @throws Error kMissing, kIo, or kBadInput if it is larger than `max_bytes` or no regular file.
std::string read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace reshardfs
