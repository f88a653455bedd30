// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "plan/target/target_table.h"
#include "view/view.h"

namespace reshardfs {

/// Adds params/<name>.npy for each array of a destination rank, and params.json beside the
/// directory: a JSON list of all parameters with name, file (null unless it is an array), dtype,
/// shape, the source's stages that hold it, the source ranks from which it is read, and the value
/// if it is a text. Arrays whose paths would be too long for programs to open have no file; one
/// warning names them.
/// @param directory where the files go, for example "merged/".
/// @param files the view's own, so far: receives the list. The arrays are among the context's
///              deferred files.
void add_params(const ViewContext& context, const std::shared_ptr<const TargetTable>& target,
                Rank rank, const std::string& directory, std::vector<OutputFile>& files);

}  // namespace reshardfs
