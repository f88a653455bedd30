// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace reshardfs {

using InodeNumber = std::uint64_t;
inline constexpr InodeNumber kRootInode = 1;

/// A number for a path: never 0 (not a node) or 1 (the root), and below 2^63, since some programs
/// keep inode numbers in signed integers.
/// @param attempt 0, or 1, 2, ... for further numbers when the earlier ones are taken.
InodeNumber inode_number(std::string_view path, std::uint64_t attempt);

/// What a mount of one conversion begins with.
inline constexpr std::uint64_t kFirstVersion = 1;

/// The inode number of a file with bytes; `version` counts the trees of the mount. The kernel must
/// not confuse the bytes with those of another version. In version 0 it is inode_number(); so it is
/// in all versions for directories, and for files that show no size, whose bytes the kernel does
/// not cache. A mount's trees therefore begin with version 1: there, what becomes empty, or a
/// directory, has a number of its own.
InodeNumber version_inode_number(std::uint64_t version, std::string_view path,
                                 std::uint64_t attempt);

using InodeNumbering = std::function<InodeNumber(std::string_view path, std::uint64_t attempt)>;

/// How the nodes of one tree get their numbers.
struct PathNumbering {
  InodeNumbering numbering;
  std::uint64_t version = 0;  ///< as of version_inode_number()

  /// @param has_bytes a file that shows a size, or a link.
  InodeNumber number(std::string_view path, bool has_bytes, std::uint64_t attempt) const {
    return version != 0 && has_bytes ? version_inode_number(version, path, attempt)
                                     : numbering(path, attempt);
  }
};

// --- trees with branches -----------------------------------------------------------------------
//
// In a tree that has branches, a number tells whether its node belongs to the trunk (bit 62 clear)
// or to a branch (bit 62 set, the branch in the 30 bits below), so that a node is found in constant
// time however many branches there are.

using BranchNumber = std::uint32_t;
inline constexpr BranchNumber kMaxBranchNumber = (BranchNumber{1} << 30) - 1;

/// A number for a branch. `attempt` as for inode_number().
BranchNumber branch_number(std::string_view name, std::uint64_t attempt);
/// For the nodes of a trunk.
InodeNumber trunk_inode_number(std::string_view path, std::uint64_t attempt);
/// For the nodes of a branch, by their paths below its root; the root's path is empty.
InodeNumber branch_inode_number(BranchNumber branch, std::string_view path, std::uint64_t attempt);

constexpr bool is_in_branch(InodeNumber inode) noexcept {
  return (inode >> 62) == 1;
}
/// The branch of a number for which is_in_branch() holds.
constexpr BranchNumber branch_of(InodeNumber inode) noexcept {
  return static_cast<BranchNumber>(inode >> 32) & kMaxBranchNumber;
}

}  // namespace reshardfs
