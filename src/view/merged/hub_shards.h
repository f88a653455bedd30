// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "view/view.h"
#include "view/weights.h"

namespace reshardfs {

/// DIRECTORY/model-<k>-of-<n>.safetensors and model.safetensors.index.json: the whole model in the
/// form that model hubs use and their libraries load. Empty if there is no array.
/// @param context with a whole model.
/// @throws Error if such files cannot hold a parameter.
std::vector<OutputFile> hub_shards(const ViewContext& context, const std::string& directory,
                                   const TakesParameter& takes);

}  // namespace reshardfs
