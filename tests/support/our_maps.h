// SPDX-License-Identifier: Apache-2.0
/// The maps of the repository, read.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "modelmap/model_map.h"

namespace reshardfs::testing {

/// Those of a directory that stand for themselves, in the order of their names.
inline std::vector<modelmap::ModelMap> maps_in(const std::filesystem::path& directory) {
  const auto read = [](const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  };
  std::map<std::filesystem::path, modelmap::ModelMap> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (read(entry.path()).find("Not for use alone") != std::string::npos) continue;
    found[entry.path()] = modelmap::load_model_map(entry.path(), read);
  }
  std::vector<modelmap::ModelMap> maps;
  for (auto& [path, map] : found) maps.push_back(std::move(map));
  return maps;
}

}  // namespace reshardfs::testing
