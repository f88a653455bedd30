// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "strategy/files/raw_strategy.h"

namespace reshardfs {

/// Reads the text of a JSON strategy file. Beyond what MindSpore reads, tensor_map may have lists
/// of axes among its entries, and "field" may be absent.
/// @throws Error kBadInput, with the parameter if there is one, without the file.
RawStrategy read_json_strategy(const std::string& text);

}  // namespace reshardfs
