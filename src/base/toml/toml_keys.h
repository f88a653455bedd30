// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace reshardfs {

/// Far above what any key of ours has.
inline constexpr std::size_t kMaxTomlKeyParts = 16;

/// To be called before a TOML file is parsed. A key "a.b.c" stands for tables inside each other,
/// which the parser makes as deep as the key is long: destroying them then overflows the stack.
/// (Brackets it counts itself.)
/// @throws Error kBadInput "line N: ..." for a key of more than kMaxTomlKeyParts parts.
void refuse_deep_toml_keys(std::string_view text);

}  // namespace reshardfs
