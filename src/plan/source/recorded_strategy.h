// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/strategy.h"

#include "plan/source/source_table.h"

namespace reshardfs {

/// How a strategy states the optimizer's cut, which a set records as a cut of dimension 0.
enum class OptimizerCut : std::uint8_t {
  kAsRecorded,  ///< among the axes of the tensor map
  kApart,       ///< as Layout::optimizer_shard_size
};

/// The strategy that consists of the layouts recorded in a set. It lacks parameters without a
/// layout.
/// @param source must state layouts by itself, without a strategy.
/// @throws Error kUnsupported with the parameter if its ranks are not a pipeline stage, or it is
///         stored in boxes. With kApart, also if it is unknown whether a cut is the optimizer's.
///         This is known if axes have names, or if no cut can be the optimizer's, which cuts
///         dimension 0 over axes that cut no other dimension.
Strategy recorded_strategy(const SourceTable& source, OptimizerCut optimizer);

}  // namespace reshardfs
