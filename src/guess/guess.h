// SPDX-License-Identifier: Apache-2.0
/// How parameters were cut, found out from the slices alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/layout.h"

#include "guess/guess_readings.h"
#include "modelmap/model_map.h"
#include "modelmap/variables.h"

namespace reshardfs {

/// A parameter as the ranks hold it.
struct SlicedParameter {
  std::string name{};
  /// The pipeline stages that hold it, ascending.
  std::vector<std::int64_t> stages{};
  /// Of each of these stages.
  DeviceSlices slices{};
  /// Whether the stages hold the same shapes, and contents in the same pattern.
  bool stages_agree = true;
};

struct SlicedSet {
  std::int64_t stages = 1;
  std::int64_t devices = 1;  ///< of each stage
  std::vector<SlicedParameter> parameters{};
};

enum class Certainty : std::uint8_t {
  kProven,  ///< every other reading is excluded
  kOneOf,   ///< of a few readings, all of which are listed
  kOpen,    ///< no reading explains the slices, or more do than can be listed
};

struct GuessedParameter {
  std::string name{};
  std::vector<std::int64_t> stages{};
  std::size_t dimensions = 0;
  Certainty certainty = Certainty::kOpen;
  /// The layout; of one of several all of them; of what is open none.
  std::vector<Reading> readings{};
  /// One more choice, which no rule can state: "values of each rank's own".
  std::string other{};
  /// A sentence without its full stop: the reason, or the question.
  std::string why{};

  std::size_t choices() const { return readings.size() + (other.empty() ? 0 : 1); }
};

struct Guess {
  std::int64_t stages = 1;
  std::int64_t devices = 1;
  std::vector<GuessedParameter> parameters{};
  /// What keeps everything from being proven, one line each.
  std::vector<std::string> doubts{};

  std::size_t count(Certainty certainty) const;
};

/// What is proven is the only layout of the strategy language that explains all bytes that were
/// compared, all shapes and the model's configuration. Where its names are those of a known
/// network, and the whole set is cut as that network's code cuts it, other layouts count as
/// excluded, and the reason says so.
///
/// @param config of the model; nothing: names alone, which prove no shape.
/// @param maps of the families that are known.
/// O(parameters * devices), and for each kind of slices the number of layouts, which is bounded.
Guess guess_strategy(const SlicedSet& set, const std::optional<modelmap::ModelConfig>& config,
                     const std::vector<modelmap::ModelMap>& maps);

}  // namespace reshardfs
