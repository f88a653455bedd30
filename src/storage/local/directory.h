// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace reshardfs {

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  bool is_regular = false;  ///< symbolic links are followed
  bool is_link = false;     ///< it is a symbolic link; its target does not matter
};

enum class PathKind : std::uint8_t { kMissing, kDirectory, kOther };

/// What `path` leads to; symbolic links are followed (a broken link: kMissing).
/// @throws Error kIo if it cannot be examined.
PathKind path_kind(const std::filesystem::path& path);

/// Whether `path` itself is a symbolic link.
/// @throws Error kIo if it cannot be examined. False if it does not exist.
bool is_link(const std::filesystem::path& path);

/// The absolute path without symbolic links; of what does not exist, as far as it does. The path as
/// it stands if that cannot be found out.
std::filesystem::path real_path(const std::filesystem::path& path);

/// Where the links in a path lead.
struct FollowedPath {
  std::filesystem::path place{};  ///< without symbolic links
  std::filesystem::path rest{};   ///< what is left of the path behind `stop`; empty elsewhere
};

/// Reads links alone, and looks at nothing in `stop`: where that is a mount, whoever serves it need
/// not answer.
/// @param stop without symbolic links.
/// @return nothing if there are more links than the kernel follows.
std::optional<FollowedPath> follow_links(const std::filesystem::path& path,
                                         const std::filesystem::path& stop);

/// Whether `inner` is `outer` or lies below it by name. Looks at no file.
/// @param outer without a slash at its end.
bool is_inside_by_name(const std::filesystem::path& inner, const std::filesystem::path& outer);

/// Whether `inner` is `outer` or lies below it: by name, or because both names lead to the same
/// directory, as with a bind mount. Components that do not exist (yet) are ignored.
/// @param inner absolute, as is outer.
bool is_inside(const std::filesystem::path& inner, const std::filesystem::path& outer);

/// The entry of an open directory that its list gives, with its kind or, from some file systems,
/// without.
DirectoryEntry entry_of(int directory, const dirent& found);

/// The entries of a directory without "." and "..", sorted by name (bytes).
/// @throws Error kMissing, kBadInput (no directory) or kIo.
std::vector<DirectoryEntry> list_directory(const std::filesystem::path& path);

/// The contents of a small file (a strategy, a configuration).
/// @throws Error kMissing, kIo, or kBadInput if it is larger than `max_bytes` or no regular file.
std::string read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace reshardfs
