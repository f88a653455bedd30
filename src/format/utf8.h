// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace reshardfs {

/// Whether `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) noexcept;

}  // namespace reshardfs
