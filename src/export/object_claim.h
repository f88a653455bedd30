// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "export/manifest.h"
#include "export/object_target.h"
#include "export/share.h"

namespace reshardfs {

/// Target::claim() in an object store, which has no locks: if another process has started a
/// manifest in the same place, the next write notices it.
/// @param target must outlive the claim.
std::unique_ptr<Claim> claim_in(const ObjectTarget& target, const std::optional<Share>& share);

}  // namespace reshardfs
