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

/// metadata.total_size of an index. Nothing if it is not there, or is no number of bytes.
std::optional<std::uint64_t> read_total_size(const std::string& json);

/// What an index tells before its files are opened: those beside them of which it names nothing.
/// One that is numbered as they are belongs to them; what else lies there is a doubt.
/// @param out gets that and the ground.
void state_index(const NameMapDirectory& index, Completeness& out);

/// Whether the files of an index have as many bytes of tensors as it states. A larger number is
/// that of tensors which are missing, unless another way of counting explains it: the bytes of
/// whole files, those of all elements in another type where they have several (converters keep the
/// number of before), or an embedding that is tied to the output and was counted twice.
/// @param config of the model; read for the latter alone. Empty: it is not to be read.
/// @param out gets what is missing or differs, and the ground.
void state_total(const NameMapDirectory& index, const std::vector<RankFile>& files,
                 const std::filesystem::path& config, const SourceTreePtr& tree, Completeness& out);

}  // namespace reshardfs
