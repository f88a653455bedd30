// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/checkpoint.h"

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// The options for opening the checkpoint of a query. All indexes are compared.
/// @throws Error as Decryption::load_if_named().
CheckpointOptions options_of(const CheckpointQuery& query);

/// The result of read_contents() for an open set.
CheckpointContents contents_of(const CheckpointSet& set);

}  // namespace reshardfs
