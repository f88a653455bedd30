// SPDX-License-Identifier: Apache-2.0
/// Finds options that select no parameter of a checkpoint by name. Without this check, a misspelt
/// name would go unnoticed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reshardfs/conversion_options.h"
#include "reshardfs/source_request.h"

#include "base/unmatched_options.h"
#include "checkpoint/checkpoint_set.h"
#include "plan/source/source_table.h"
#include "plan/target/name_map.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// Whether options about the source select or change parameters by their names.
bool selects_by_name(const SourceRequest& source);
bool selects_by_name(const ConversionOptions& options);

/// All names in a set that options may refer to, each once: parameters, parameters that only the
/// set's metadata lists, parameters that cannot be read, and objects that are not tensors.
std::vector<std::string> names_in(const CheckpointSet& checkpoint);
/// The same for a table. If a model map made the table, its own parameters replace those of the
/// set.
std::vector<std::string> names_in(const SourceTable& table);

/// The names under which these are shown.
std::vector<std::string> renamed(const std::vector<std::string>& names, const NameMap& map);

/// Adds the entries of a name map whose old name is not in `names`.
void add_unmatched_names(const NameMap& map, const std::filesystem::path& file,
                         const std::vector<std::string>& names, UnmatchedOptions& unmatched);

/// Adds the filters, prefixes and entries of a name map that match nothing.
/// @param names of what could be shown, in the source.
void add_unmatched_filters(const ConversionOptions& options, const std::vector<std::string>& names,
                           const NameMap& name_map, UnmatchedOptions& unmatched);

/// Adds casts that convert no shown parameter.
/// @param shown the tables whose parameters are shown; nullptr is ignored.
/// @param names all parameters that could be shown, by their names in the target.
void add_unmatched_casts(const std::vector<std::string>& texts,
                         const std::vector<const TargetTable*>& shown,
                         const std::vector<std::string>& names, UnmatchedOptions& unmatched);

}  // namespace reshardfs
