// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "plan/target/target_table.h"

namespace reshardfs {

/// Adds params/<name>.npy for each array of a destination rank, and params.json beside the
/// directory: a JSON list of all parameters with name, file (null for what is no array), dtype,
/// shape, stages of the source that hold it, and source ranks from which it is read; of a text its
/// value too.
/// An array whose path would be longer than programs can open has no file; one warning names these.
/// @param directory "merged/": where they go.
void add_params(const std::shared_ptr<const TargetTable>& target, Rank rank,
                const std::string& directory, std::vector<OutputFile>& files,
                std::vector<std::string>& warnings);

}  // namespace reshardfs
