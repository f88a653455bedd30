// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "view/hyper/trainer_files.h"
#include "view/view.h"

namespace reshardfs {

/// What a step of hyper-parallel's Trainer has of a source: which tensor is which weight or state,
/// and what the source, or the user, states of the training. Adds warnings about what is left out.
/// @param context with a whole model.
/// @param step see training_step(); nullopt: it is not known.
/// @throws Error kMissing if no tensor is a weight; kUsage for statements that have no use;
///         kUnsupported for a tensor of which no whole is known.
TrainerContent trainer_content(const ViewContext& context, std::optional<std::int64_t> step);

}  // namespace reshardfs
