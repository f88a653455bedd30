// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "view/view.h"

namespace reshardfs {

/// Which parameters of the whole model are in the files; empty: all.
using TakesParameter = std::function<bool(const TargetParameter& parameter)>;

/// DIRECTORY/model-<k>-of-<n>.safetensors and model.safetensors.index.json: the whole model as it
/// is published on model hubs, and as their libraries load it. Empty if there is no array.
/// @param context with a whole model.
/// @throws Error for what such files cannot hold.
std::vector<OutputFile> hub_shards(const ViewContext& context, const std::string& directory,
                                   const TakesParameter& takes);

}  // namespace reshardfs
