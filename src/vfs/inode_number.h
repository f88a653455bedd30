// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace reshardfs {

using InodeNumber = std::uint64_t;
inline constexpr InodeNumber kRootInode = 1;

/// A number for a path: never 0 (not a node) or 1 (the root), and below 2^63, since some programs
/// keep inode numbers in signed integers.
/// @param attempt 0, or 1, 2, ... for further numbers when the earlier ones are taken.
InodeNumber inode_number(std::string_view path, std::uint64_t attempt);

using InodeNumbering = InodeNumber (*)(std::string_view path, std::uint64_t attempt);

}  // namespace reshardfs
