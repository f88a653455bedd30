// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/strategy.h"

#include "plan/source/source_table.h"

namespace reshardfs {

/// How a strategy has the optimizer's cut, which a set records as one of dimension 0.
enum class OptimizerCut : std::uint8_t {
  kAsRecorded,  ///< among the axes of the tensor map
  kApart,       ///< as Layout::optimizer_shard_size
};

/// The layouts that a set records itself, as a strategy. Parameters without a layout are not in it.
/// @param source one whose catalogue states layouts, without a strategy.
/// @throws Error kUnsupported with the parameter: its ranks are no pipeline stage, as strategies
///         have them, or it is in boxes. With kApart besides: whether a cut is the optimizer's
///         cannot be told. It can where axes have names, and where no cut can be the optimizer's,
///         as it would be of dimension 0 and over other axes than those that cut other dimensions.
Strategy recorded_strategy(const SourceTable& source, OptimizerCut optimizer);

}  // namespace reshardfs
