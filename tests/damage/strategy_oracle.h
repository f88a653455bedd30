// SPDX-License-Identifier: Apache-2.0
/// What a damaged strategy must give with an intact checkpoint, by the naive model.
///
/// A strategy has hardly any redundancy: another number in a tensor map is another layout. What can
/// be asked for is this. Either the damaged strategy is refused, or everything that the engine
/// gives is what the naive model gives for exactly the layouts that the damaged file states, so
/// that no byte comes from anywhere else, and the shapes fit the bytes. The *kind* is then the one
/// fact in which the damaged strategy differs from the intact one:
///
///   name     one parameter has another name
///   layout   one parameter has another device matrix, tensor map, optimizer cut, field,
///            param_split_shape or indices_offset, or states another shape
///   stage    one parameter is in another stage, or the whole file is of another stage
///   missing  one or several parameters have no layout any more
///   several facts
///
/// and empty if the bytes are right all the same.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "reshardfs/strategy.h"

#include "engine.h"

namespace reshardfs::damage {

/// A model of int16 elements that are all different, cut by a strategy without scalars.
class CutModel {
 public:
  CutModel(Strategy strategy, std::map<std::string, Shape> shapes);

  const Strategy& strategy() const { return strategy_; }
  const std::shared_ptr<const CheckpointSet>& set() const { return set_; }
  /// The whole model.
  const Parameters& whole() const { return whole_; }

  /// What comes of reading the set by `damaged`.
  /// @throws Error if it is refused.
  std::string kind_as_source(const Strategy& damaged) const;
  /// What comes of cutting the model by `damaged`, which must not be for very many ranks.
  std::string kind_as_target(const Strategy& damaged) const;

 private:
  std::string check_source(const Strategy& damaged, const Parameters& found) const;
  std::string check_rank(const Strategy& damaged, std::int64_t rank, const Parameters& found) const;

  Strategy strategy_;
  Parameters whole_;
  /// What each rank's file holds.
  std::vector<Parameters> ranks_;
  std::shared_ptr<const CheckpointSet> set_;
};

/// The kind of difference, empty for none.
std::string changed_fact(const Strategy& intact, const Strategy& damaged);

}  // namespace reshardfs::damage
