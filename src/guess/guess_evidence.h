// SPDX-License-Identifier: Apache-2.0
/// What is known of one parameter before a layout is decided, and what keeps a set from proving
/// anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "guess/guess.h"
#include "guess/guess_readings.h"
#include "guess/guess_shapes.h"

namespace reshardfs {

struct Evidence {
  const SlicedParameter* parameter = nullptr;
  const KnownParameter* known = nullptr;  ///< nullptr: its name is of no known family
  std::string state{};                    ///< "adam_m." of a state of an optimizer; else empty
  /// For all possible full shapes; none if the full shape is unknown.
  Readings readings{};
  bool is_padded = false;  ///< only a padded full shape fits

  bool is_state() const noexcept { return !state.empty(); }
  bool shape_is_known() const noexcept { return known != nullptr && !known->shapes.empty(); }
  /// Whether a full shape is known that the slices cannot be parts of.
  bool does_not_fit() const;
  /// Whether all readings give different parts to ranks that hold the same. Of embeddings they may.
  bool only_repeats() const;
};

/// Whether the configuration says that parameters are cut, and the slices of none differ: nothing
/// shows that the configuration is this model's.
bool nothing_differs(const std::vector<Evidence>& cases);

struct LayerCount {
  std::size_t count = 0;
  /// Parameters of layers that are spread over several stages.
  std::vector<std::string> misplaced{};
};

LayerCount count_layers(const SlicedSet& set);

}  // namespace reshardfs
