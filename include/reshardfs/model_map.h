// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reshardfs {

/// Which way a model map is read; see reshardfs-map(5).
enum class MapDirection : std::uint8_t {
  kAuto,     ///< the names in the source tell
  kForward,  ///< `from` is the source's side
  kInverse,  ///< `to` is the source's side
};

/// Model maps, and what they need to know of the model.
struct ModelMapOptions {
  /// Files of rules, or names of installed ones ("mindformers-qwen3"). Each one maps what the one
  /// before it shows. None: no map.
  std::vector<std::string> maps{};
  /// Of each map; empty: kAuto for all.
  std::vector<MapDirection> directions{};
  /// A model's config.json, or the directory with it; empty: no values from there.
  std::filesystem::path model_config{};
  /// The YAML file of the training job on the other side, which states what no shape shows; empty:
  /// one that lies in the source's directory counts.
  std::filesystem::path training_config{};
  /// "NAME=VALUE": values of variables, which come before those of the configs.
  std::vector<std::string> variables{};
};

}  // namespace reshardfs
