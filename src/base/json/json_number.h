// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace reshardfs {

/// Whether the text is a number of JSON, and not too large for a double.
bool is_json_number(std::string_view text) noexcept;

/// As nlohmann's library writes it: with a fraction or an exponent; "null" if it is not finite.
std::string json_number_text(double value);

}  // namespace reshardfs
