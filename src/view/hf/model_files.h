// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "view/view.h"
#include "view/weights.h"

namespace reshardfs {

/// What loaders need beside the weights: config.json, the tokenizer, and the others of
/// is_companion(). Adds them below a directory, and to the warnings of the context what is missing
/// or does not describe the weights.
/// @param directory without '/' at its end: "hf".
/// @param table with the weights; is_weight selects those that are shown.
/// @throws Error as open_file().
void add_model_files(const ViewContext& context, const TargetTable& table,
                     const std::string& directory, const TakesParameter& is_weight,
                     std::vector<OutputFile>& files);

/// @param directory with '/' at its end: "hf/".
/// @throws Error kUsage for a set that says of itself that it is an adapter, and no model.
void require_model(const TargetTable& whole, const std::string& directory);
/// Whether the model's config.json states that its weights are quantized.
bool states_quantization(const ViewContext& context);
/// Whether it states that the output layer is the embedding.
bool states_tied_embeddings(const ViewContext& context);

}  // namespace reshardfs
