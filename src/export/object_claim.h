// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "export/manifest.h"
#include "export/object_target.h"
#include "export/share.h"

namespace reshardfs {

/// Target::claim() in an object store, which knows nothing of processes: who has begun another
/// manifest in the place of this one is noticed at the next write.
/// @param target must outlive the claim.
std::unique_ptr<Claim> claim_in(const ObjectTarget& target, const std::optional<Share>& share);

}  // namespace reshardfs
