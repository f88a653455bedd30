// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "modelmap/model_map.h"

namespace reshardfs::modelmap {

struct MapText;

/// Reads maps that may extend the same files, each file once.
class MapLoader {
 public:
  explicit MapLoader(ReadMapFile read) : read_(std::move(read)) {}

  /// @param path of the file; those that it extends are looked for beside it.
  /// @throws Error kBadInput with file and line; what `read` throws.
  ModelMap load(const std::filesystem::path& path);

 private:
  using TextPtr = std::shared_ptr<const MapText>;

  TextPtr text_of_map(const std::filesystem::path& path);
  std::optional<std::string> text_of_file(const std::filesystem::path& path);
  TextPtr load_by_other_name(const std::filesystem::path& path);
  void inherit_all(MapText& map, const std::filesystem::path& path);
  TextPtr load_parent(const MapText& map, const std::filesystem::path& path);

  ReadMapFile read_;
  std::map<std::filesystem::path, TextPtr> loaded_{};
  std::size_t files_ = 0;                      ///< read for the map that is loaded
  std::vector<std::filesystem::path> open_{};  ///< each extends the next one
};

}  // namespace reshardfs::modelmap
