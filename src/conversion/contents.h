// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/checkpoint.h"

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// How the checkpoint of a query is opened. All indexes are compared.
/// @throws Error as Decryption::load_if_named().
CheckpointOptions options_of(const CheckpointQuery& query);

/// What read_contents() gives, of a set that is open.
CheckpointContents contents_of(const CheckpointSet& set);

}  // namespace reshardfs
