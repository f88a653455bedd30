// SPDX-License-Identifier: Apache-2.0
/// Random sets of slices whose layouts are known here alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "boxes.h"
#include "guess/guess.h"
#include "random_layout.h"

namespace guess_property {

enum class Values : std::uint8_t {
  kDifferent,  ///< all elements of the tensor
  kConstant,   ///< one value: norms of ones, moments of zeros
  kPeriodic,   ///< slices of different parts may be equal
  kBits,       ///< zeros and ones: the smaller the slices, the more of them are equal
};

struct Truth {
  std::string name{};
  reshardfs::Shape full{};
  reshardfs::Layout layout{};
  std::vector<std::int64_t> stages{};
  Values values = Values::kDifferent;
  /// Copies have drifted apart, or each rank has values of its own: no layout is right.
  bool has_no_layout = false;
};

enum class Origin : std::uint8_t {
  kNetwork,   ///< a known network's code, in any order of the axes
  kSpoiled,   ///< the same, and something that no such code does
  kAnyCuts,   ///< names of a known network, each cut in any way
  kUnknown,   ///< names that nobody knows, each cut in any way
  kNoConfig,  ///< a known network without its config.json
};

struct TrueSet {
  Origin origin = Origin::kNetwork;
  std::string what{};  ///< for messages
  std::int64_t stages = 1;
  std::int64_t devices = 1;
  std::vector<Truth> parameters{};
  std::optional<std::string> config{};
  bool config_is_wrong = false;
};

TrueSet random_set(std::uint64_t seed);

/// What the ranks' files show of it.
reshardfs::SlicedSet sliced(const TrueSet& set, std::uint64_t seed);

}  // namespace guess_property
