// SPDX-License-Identifier: Apache-2.0
/// Whether files of optim_states fit each other.
#pragma once

#include <span>
#include <string>

#include "checkpoint/deepspeed/zero_states.h"

namespace reshardfs {

struct NamedOptimizer {
  std::string name{};  ///< of the file
  const ZeroOptimizerStates* states = nullptr;
};

/// All must be of one stage, world and optimizer, and only the end of a group padded.
/// @param model_file the name of the file of model_states. @param all by rank; not empty.
/// @throws Error kMissing or kBadInput, without the directory.
void require_one_optimizer(const std::string& model_file, const ZeroModelStates& model,
                           std::span<const NamedOptimizer> all);

}  // namespace reshardfs
