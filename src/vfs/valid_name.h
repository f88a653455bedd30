// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace reshardfs {

/// Checks a directory entry's name: the kernel shows what it is given, and one impossible name
/// makes the whole directory unreadable.
/// @throws Error kBadInput if it is empty, ".", "..", longer than 255 bytes, or holds '/', a NUL or
///         another control character.
void check_name(std::string_view name);

}  // namespace reshardfs
