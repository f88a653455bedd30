// SPDX-License-Identifier: Apache-2.0
/// What a file of strategy rules says, checked as far as that is possible without parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/layout.h"

namespace reshardfs {

/// One [[rule]].
struct Rule {
  std::int64_t line = 0;
  std::vector<std::string> globs{};
  /// Axes counted from the right, as in a Layout; dimensions behind its end are not cut.
  TensorMap cut{};
  /// Empty, or one for each entry of `cut`.
  std::vector<DimensionSplit> uneven{};
  std::int64_t field = 0;
  std::int64_t optimizer = 0;  ///< as Layout::optimizer_shard_size
  /// Empty: the rule says nothing about stages.
  std::vector<std::int64_t> stages{};
  /// These parameters are refused, because it is unknown how they are cut.
  bool undecided = false;
  /// A checkpoint may have no parameter for it.
  bool optional = false;

  /// The first of the globs that matches.
  const std::string* matching_glob(const std::string& name) const;
};

/// Layers that [[layers]] may place: far more than any model has; bounds what a wrong number costs.
inline constexpr std::int64_t kMaxLayers = 1 << 16;

/// One [[layers]]: where the number of a layer stands in a name, and the stage of each layer.
struct LayerPlacement {
  std::int64_t line = 0;
  std::string before{};   ///< the text before the number
  std::string after{};    ///< the text behind it
  bool optional = false;  ///< a checkpoint may have no such layer
  /// By layer number; -1: the layer is in no stage.
  std::vector<std::int64_t> stage_of_layer{};

  /// The number of the layer that a parameter belongs to.
  std::optional<std::int64_t> layer_of(const std::string& name) const;
};

/// What a file says of parameters that no rule takes.
enum class UnmatchedParameters : std::uint8_t {
  kUnstated,   ///< nothing
  kUnknown,    ///< the rules do not know how they are laid out
  kReplicate,  ///< every device holds them whole
  kError,      ///< there must be none
};

struct RulesDocument {
  std::string file{};
  std::vector<std::string> axis_names{};
  std::vector<std::int64_t> device_matrix{};
  std::int64_t stage_count = 1;
  UnmatchedParameters unmatched = UnmatchedParameters::kUnstated;
  bool optional = false;  ///< of rules and layers that say nothing of it
  std::vector<Rule> rules{};
  std::vector<LayerPlacement> layers{};
};

/// @param file for messages.
/// @throws Error kBadInput with file and line.
RulesDocument read_rules(const std::string& file, const std::string& text);

}  // namespace reshardfs
