// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/target/target_table.h"

namespace reshardfs {

/// The shapes of one rank's slices, for those who go through many parameters: the next one is
/// nearly always cut as the one before. For one thread.
class SliceShapes {
 public:
  /// @param target must outlive it.
  SliceShapes(const TargetTable& target, Rank rank)
      : target_(target), rank_(rank), stage_(target.stage_of(rank)) {}

  /// As TargetTable::slice_shape(), until the next call.
  const Shape& of(const TargetParameter& parameter) {
    if (parameter.treatment == Treatment::kKeep) return parameter.grid->full_shape();
    const Slicing* const cut =
        parameter.treatment == Treatment::kReshard ? (*parameter.by_stage)[stage_].get() : nullptr;
    if (cut == nullptr || cut != cut_) shape_ = target_.slice_shape(parameter, rank_);
    cut_ = cut;
    return shape_;
  }

 private:
  const TargetTable& target_;
  Rank rank_;
  std::size_t stage_;
  const Slicing* cut_ = nullptr;  ///< of shape_
  Shape shape_;
};

}  // namespace reshardfs
