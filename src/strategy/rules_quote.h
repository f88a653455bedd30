// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

/// A TOML string.
std::string quoted(const std::string& text);

/// "[3, 9, 1, 7]".
std::string number_list(const std::vector<std::int64_t>& numbers);

/// "["a", "b"]": texts that are TOML values already.
std::string value_list(const std::vector<std::string>& values);

}  // namespace reshardfs
