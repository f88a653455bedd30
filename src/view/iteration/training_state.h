// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "view/view.h"

namespace reshardfs {

/// Where training was when it saved the source: what MindSpore Transformers' Checkpoint 2.0 keeps
/// beside the parameters.
struct TrainingState {
  std::int64_t step = 0;
  std::string common;              ///< the text of common.json
  std::vector<std::string> notes;  ///< where it is from, and what it lacks
};

/// From the source's own common.json, or else from the scalars that trainers save among the
/// parameters and the step in the names of the files.
/// @throws what the source throws.
TrainingState training_state(const ViewContext& context);

}  // namespace reshardfs
