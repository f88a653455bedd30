// SPDX-License-Identifier: Apache-2.0
/// Whether maps are for the type of the model.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "base/text/url_path.h"
#include "conversion/auto_map.h"
#include "conversion/installed_maps.h"
#include "conversion/model_maps.h"

namespace reshardfs {

/// Where several maps lead to the same names, the type of the model tells which of them is right.
std::string ModelMaps::check_type(std::size_t number) const {
  const modelmap::ModelMap& map = maps_[number];
  const std::vector<std::string> types = config_.model_types();
  const bool counts =
      map.rest || (!types.empty() && is_inside(map.file, installed_maps_directory()));
  if (map.types.empty() || !counts || serves(map, types)) return {};
  const std::string name = printable(std::filesystem::path(map.file).stem().string());
  if (types.empty()) {
    throw Error(ErrorKind::kUsage,
                "--map " + name +
                    " needs the model's type, because other tensors may have other names " +
                    "too, and no config.json states it")
        .hint("give --model-config, or --map-var model_type=NAME");
  }
  std::vector<std::string> others;
  for (const modelmap::ModelMap& other : installed_maps()) {
    const bool is_alike = other.from_side == map.from_side && other.to_side == map.to_side;
    if (is_alike && !other.types.empty() && serves(other, types)) {
      others.push_back("--map " + other.name());
    }
  }
  const std::string words = "--map " + name + " is not for model_type " + name_list(types);
  if (others.empty() && !map.rest) {
    return words + ": the model may have other names and fusions; compare the result with " +
           "the model by 'reshardfs diff'";
  }
  const std::string insist =
      "to use it nevertheless, state the type of its names: --map-var model_type=" +
      (map.types.size() == 1 ? map.types.front() : "NAME, one of " + name_list(map.types, 3));
  throw Error(ErrorKind::kUsage, words)
      .hint(others.empty()
                ? insist
                : fmt::format("for this one, give {}; {}", fmt::join(others, " or "), insist));
}

/// @param type of --map-var model_type=TYPE.
std::string ModelMaps::stated_type(const std::string& type) const {
  const std::string words =
      std::string("--map-var ") + modelmap::kTypeVariable + "=" + printable(type);
  const bool has_types = std::any_of(
      maps_.begin(), maps_.end(), [](const modelmap::ModelMap& map) { return !map.types.empty(); });
  if (!has_types) {
    throw Error(ErrorKind::kUsage, words + ": no map states the types that it is for")
        .hint("leave it out");
  }
  if (type.empty()) {
    throw Error(ErrorKind::kUsage, words + ": it names no type")
        .hint("'reshardfs map list' has the types of each map");
  }
  return type;
}

}  // namespace reshardfs
