// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "view/view.h"

namespace reshardfs {

/// For a view of which a framework loads tensors by their names: the last map states that names and
/// forms of the tensors are that framework's. Equal names alone do not: the rows of tensors may be
/// in another order.
/// @param view the word for it in --views.
/// @param sides that maps call those of the framework; the first one is named in messages.
/// @throws Error kUsage with the maps that help if there is no such map, or if --name-map changes
///         what it shows.
void require_shown_side(const ViewContext& context, std::string_view view,
                        std::span<const std::string_view> sides);

}  // namespace reshardfs
