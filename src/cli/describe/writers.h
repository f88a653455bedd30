// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "report/text/set_description.h"

namespace reshardfs {

/// What the metadata of a checkpoint's first file and the small files beside it say of the program
/// that wrote it. What cannot be read states nothing.
std::vector<Statement> stated_writers(const std::filesystem::path& source,
                                      const CheckpointSet& set);

/// What the model's config.json says of it: model_type and architectures.
/// @param config see Completeness::config
void read_config_facts(const std::filesystem::path& config, ModelFacts& out);

}  // namespace reshardfs
