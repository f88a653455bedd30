// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/target/target_table.h"

namespace reshardfs {

/// The number of each parameter's storage in a file of torch.save; see SavedTensor::storage.
/// Parameters share one if the source itself has one place for both, or a map makes both of one
/// tensor: tied weights. Bytes are not compared.
/// @param parameters arrays that the rank has.
std::vector<std::size_t> shared_storages(const TargetTable& target, Rank rank,
                                         std::span<const TargetParameter* const> parameters);

}  // namespace reshardfs
