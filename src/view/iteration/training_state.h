// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "view/view.h"

namespace reshardfs {

/// The state of training when the source was saved, which MindSpore Transformers' Checkpoint 2.0
/// keeps beside the parameters.
struct TrainingState {
  std::int64_t step = 0;
  std::string common;              ///< the text of common.json
  std::vector<std::string> notes;  ///< its origin, and what it lacks
};

/// Reads the source's own common.json. Without one it uses the step in the file names, and the
/// scalars that trainers save among the parameters.
/// @throws what the source throws.
TrainingState training_state(const ViewContext& context);

}  // namespace reshardfs
