// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "layout/normal_form.h"

namespace reshardfs::modelmap {

/// Whether the boxes of a form have no element in common. Where two of one source have, and
/// `may_repeat` says so of it, the place that comes first in that source counts: the other box is
/// cut.
/// @return two sources that have an element in common, or one twice; nothing if the boxes are
///         disjoint now.
/// @throws Error kUnsupported if that needs too many boxes or comparisons.
std::optional<std::pair<std::int64_t, std::int64_t>> make_disjoint(
    NormalForm& form, const std::function<bool(std::int64_t source)>& may_repeat);

}  // namespace reshardfs::modelmap
