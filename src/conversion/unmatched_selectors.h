// SPDX-License-Identifier: Apache-2.0
/// Options that select parameters by name, met with the names of a checkpoint: each is to select
/// something, as a misspelt one would otherwise go unnoticed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "base/unmatched_options.h"
#include "checkpoint/checkpoint_set.h"
#include "plan/source/source_table.h"
#include "plan/target/name_map.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// All names that options may mean in a set, each once: of parameters, of those that its own
/// description has although no file or no reader does, and of what is no tensor.
std::vector<std::string> names_in(const CheckpointSet& checkpoint);
/// Those of a table that a model map has made; of another one, those of its set.
std::vector<std::string> names_in(const SourceTable& table);

/// The names under which they are shown.
std::vector<std::string> renamed(const std::vector<std::string>& names, const NameMap& map);

/// Adds entries of a name map whose old name is none of `names`.
void add_unmatched_names(const NameMap& map, const std::filesystem::path& file,
                         const std::vector<std::string>& names, UnmatchedOptions& unmatched);

/// Adds casts that convert nothing of what is shown.
/// @param shown the tables whose parameters are; nullptr among them is none.
/// @param names all that could be shown, under the names of the target.
void add_unmatched_casts(const std::vector<std::string>& texts,
                         const std::vector<const TargetTable*>& shown,
                         const std::vector<std::string>& names, UnmatchedOptions& unmatched);

}  // namespace reshardfs
