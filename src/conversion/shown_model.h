// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "conversion/conversion_tables.h"
#include "conversion/model_maps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Reads the beginnings of headers, and an index.
/// @param tree of the set, if symbolic links are refused or it is on a server.
/// @throws Error as read_stated_words().
ShownModel shown_model(const ModelMaps& maps, const ModelMaps::Result& shown,
                       const CheckpointSet& set, const SourceTreePtr& tree);

}  // namespace reshardfs
