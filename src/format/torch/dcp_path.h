// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace reshardfs {

/// How a value is reached in the nested dictionaries and lists of a distributed checkpoint of
/// PyTorch: keys and positions, from the outermost on.
using DcpPath = std::vector<std::variant<std::string, std::int64_t>>;

}  // namespace reshardfs
