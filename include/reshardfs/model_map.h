// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reshardfs {

/// The direction in which a model map is applied; see reshardfs-map(5).
enum class MapDirection : std::uint8_t {
  kAuto,     ///< decided by the names in the source
  kForward,  ///< `from` is the source's side
  kInverse,  ///< `to` is the source's side
};

/// Model maps, and the facts about the model that they need.
struct ModelMapOptions {
  /// Map files, or names of installed maps ("mindformers-qwen3"). Each map is applied to the result
  /// of the one before it.
  std::vector<std::string> maps{};
  /// One for each map; empty: kAuto for all.
  std::vector<MapDirection> directions{};
  /// A model's config.json, or its directory; empty: none.
  std::filesystem::path model_config{};
  /// The YAML file of the training job on the other side, for values that shapes do not show;
  /// empty: the one in the source's directory, if any.
  std::filesystem::path training_config{};
  /// "NAME=VALUE": values of variables, which override those of the configuration files.
  std::vector<std::string> variables{};
};

}  // namespace reshardfs
