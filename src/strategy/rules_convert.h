// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reshardfs/layout.h"

namespace reshardfs {

/// A layout as MindSpore's files can state it: lengths of dimension 0 as param_split_shape.
/// @param parameter for the message.
/// @throws Error kUnsupported if it has other uneven cuts, which these files would turn into even
///         ones without a word.
Layout mindspore_layout(const Layout& layout, const std::string& parameter);

}  // namespace reshardfs
