// SPDX-License-Identifier: Apache-2.0
/// The pipeline stages of layers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

/// How many layers each stage has, as --stage-layers states it; empty: it does not.
using StageLayers = std::vector<std::int64_t>;

/// "10,9,9,8".
/// @throws Error kUsage
StageLayers parse_stage_layers(const std::string& text);

/// The same text again.
std::string to_text(const StageLayers& counts);

/// The stage of each layer: the first ones are the first stage's, and so on.
/// @param wanted by stage.
/// @throws Error kUsage unless `wanted` has as many numbers as there are stages, which make up the
///         number of layers.
std::vector<std::int64_t> stages_of_layers(std::int64_t layers, std::int64_t stages,
                                           const StageLayers& wanted);
/// All stages have as many.
/// @throws Error kUsage if they cannot.
std::vector<std::int64_t> equal_stages_of_layers(std::int64_t layers, std::int64_t stages);
/// How many each stage has if they are divided as evenly as possible: the first ones get one more.
StageLayers balanced_layers(std::int64_t layers, std::int64_t stages);
/// The stage of each layer with balanced_layers().
/// @param stages at most as many as layers.
std::vector<std::int64_t> balanced_stages_of_layers(std::int64_t layers, std::int64_t stages);

}  // namespace reshardfs
