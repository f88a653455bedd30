// SPDX-License-Identifier: Apache-2.0
/// Tensors that a map leaves out because they state an order that changes nothing: whether they do,
/// only their bytes show.
#pragma once

#include "modelmap/mapping.h"
#include "plan/source/source_table.h"

namespace reshardfs {

/// @param source to which the mapping was applied.
/// @throws Error kBadInput with the tensor if its elements are not 0, 1, 2 and so on; errors of the
///         source.
void require_identities(const modelmap::Mapping& mapping, const SourceTable& source);

}  // namespace reshardfs
