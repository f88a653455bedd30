// SPDX-License-Identifier: Apache-2.0
/// What the slices of one parameter, and those of all others, leave of the possible readings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strategy/derive_cuts.h"
#include "strategy/guess.h"
#include "strategy/guess_shapes.h"

namespace reshardfs {

struct Evidence {
  const SlicedParameter* parameter = nullptr;
  const KnownParameter* known = nullptr;  ///< nullptr: its name is of no known family
  bool is_state = false;                  ///< of an optimizer
  /// Of all full shapes that are possible; those that contents or other parameters exclude are
  /// gone.
  std::vector<Reading> readings{};
  std::size_t fitting = 0;  ///< readings that the shapes alone allow
  bool too_many = false;
  bool is_padded = false;  ///< only a padded full shape fits

  void add(const Readings& more);
  /// Whether a full shape is known that the slices cannot be parts of.
  bool does_not_fit() const;
  /// Whether all readings give different parts to ranks that hold the same. Of embeddings they may.
  bool only_repeats() const;
};

/// Excludes readings with an optimizer cut where the set has none. Weights and states are judged
/// apart, as the optimizer may cut states alone.
///
/// The set has none if a matrix of attention or feed-forward is held by several ranks though its
/// dimension 0 could be divided among them: MindSpore cuts all that it can, or nothing. And no
/// optimizer cut stands in for a part of the tensor parallelism that cuts other matrices.
void exclude_optimizer_cuts(std::vector<Evidence>& cases, std::int64_t devices);

/// The devices that most matrices are cut over; empty if none is known to be cut.
DeviceGroup usual_group(const std::vector<Evidence>& cases, std::int64_t devices);

/// Readings of this oddness and below are those of an ordinary training.
inline constexpr int kUsual = 2;
/// How far a reading is from what is usual: cut over the usual devices, or over these and by the
/// optimizer, or over all devices.
int oddness(const Reading& reading, const DeviceGroup& usual);

/// Whether it cuts this dimension, and beside it at most dimension 0.
bool cuts_only(const Reading& reading, std::size_t dimension);

/// Readings of slices whose full shape nobody knows, one dimension or one and dimension 0 cut into
/// as many parts as there are contents. For contents that are all equal: whole, and cut over the
/// usual devices.
std::vector<Reading> readings_by_content(const DeviceSlices& slices, std::int64_t devices,
                                         const DeviceGroup& usual);

/// Proven readings that cut a dimension over several axes of the device matrix: the parts may be in
/// the order of these axes, or in another.
/// @return the numbers of such cases.
std::vector<std::size_t> cut_over_several_axes(const std::vector<Evidence>& cases,
                                               const std::vector<GuessedParameter>& parameters,
                                               std::int64_t devices);

struct LayerCount {
  std::size_t count = 0;
  /// Parameters of layers that are spread over several stages.
  std::vector<std::string> misplaced{};
};

LayerCount count_layers(const SlicedSet& set);

}  // namespace reshardfs
