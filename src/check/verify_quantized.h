// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "check/verify.h"
#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// Counts quantized weights, and reports parts whose types and shapes do not fit what is stated, by
/// the headers of the files alone.
/// @param takes by the name of a tensor, whether it is checked.
void check_quantized(const CheckpointSet& set,
                     const std::function<bool(const std::string& name)>& takes,
                     VerifyReport& report);

}  // namespace reshardfs
