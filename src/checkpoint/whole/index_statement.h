// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/completeness.h"
#include "checkpoint/ranks/rank_file.h"
#include "checkpoint/whole/name_map_directory.h"

namespace reshardfs {

/// metadata.total_size of an index, or of what JsonTexts::beside has of it. nullopt if it is
/// missing or not a number of bytes.
std::optional<std::uint64_t> read_total_size(const std::string& json);

/// Finds files that lie beside those of an index but that the index does not name. A file that is
/// numbered like its files belongs to them; any other file is a doubt.
/// @param out gets the findings and the evidence.
void state_index(const NameMapDirectory& index, Completeness& out);

/// Compares the tensors' bytes in the files of an index with the total that it states. A larger
/// total means that tensors are missing, unless it was counted in another way: the bytes of whole
/// files; the bytes of all elements in another type, if there are several types (converters keep
/// the old total); or an embedding that is tied to the output and was counted twice.
/// @param config of the model; read only for tied embeddings. Empty: do not read it.
/// @param out gets missing parts, differences, and the evidence.
void state_total(const NameMapDirectory& index, const std::vector<RankFile>& files,
                 const std::filesystem::path& config, const SourceTreePtr& tree, Completeness& out);

}  // namespace reshardfs
