// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "modelmap/model_map.h"

namespace reshardfs {

/// The directory of the installed model maps: that beside the running program's, or else where the
/// build installs it. It may not exist.
std::filesystem::path installed_maps_directory();

/// Lets another program's count, for a library within a program that is not reshardfs. Before maps
/// are asked for.
void set_program(const std::filesystem::path& path);

struct InstalledMap {
  std::string name{};
  std::filesystem::path file{};
  /// The first paragraph of the comment at its beginning, without the licence.
  std::string about{};
};

/// The installed maps, sorted by name; none without the directory. Files that others extend and
/// that say "Not for use alone" are left out.
std::vector<InstalledMap> installed_maps();

/// @throws Error kIo or kBadInput with the file.
modelmap::ModelMap read_map(const InstalledMap& map);

/// All of them, read.
/// @throws Error kIo or kBadInput with the file.
std::vector<modelmap::ModelMap> read_installed_maps();

/// Whether a user means a file by `name`, not an installed map: it has a '/' or ends in .toml.
bool is_map_path(const std::string& name);

/// The file that a user means by `name`: an installed map's, or a path, which becomes absolute.
/// @throws Error kMissing with the names of the installed maps.
std::filesystem::path find_map(const std::string& name);

}  // namespace reshardfs
