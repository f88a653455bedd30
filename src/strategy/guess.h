// SPDX-License-Identifier: Apache-2.0
/// How parameters were cut, found out from the slices alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/layout.h"

#include "modelmap/variables.h"
#include "strategy/guess_readings.h"

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
  kLikely,  ///< one reading is as networks are cut as a rule
  kOpen,
};

struct GuessedParameter {
  std::string name{};
  std::vector<std::int64_t> stages{};
  std::size_t dimensions = 0;
  Certainty certainty = Certainty::kOpen;
  /// The layout; of what is open those that are possible, as far as they are worth a line.
  std::vector<Reading> readings{};
  /// A sentence without its full stop: the reason, or the question.
  std::string why{};
};

struct Guess {
  std::int64_t stages = 1;
  std::int64_t devices = 1;
  std::vector<GuessedParameter> parameters{};
  /// What keeps everything from being proven, one line each.
  std::vector<std::string> doubts{};

  std::size_t count(Certainty certainty) const;
};

/// @param config of the model; nothing: names alone, which prove no shape.
/// O(parameters * devices), and for each kind of slices the number of device matrices.
Guess guess_strategy(const SlicedSet& set, const std::optional<modelmap::ModelConfig>& config);

}  // namespace reshardfs
