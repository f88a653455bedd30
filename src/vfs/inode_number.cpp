// SPDX-License-Identifier: Apache-2.0
#include "vfs/inode_number.h"

#include <xxhash.h>

namespace reshardfs {
namespace {

constexpr InodeNumber kBranchBit = InodeNumber{1} << 62;

std::uint64_t hash(std::string_view text, std::uint64_t attempt) {
  return XXH3_64bits_withSeed(text.data(), text.size(), static_cast<XXH64_hash_t>(attempt));
}

}  // namespace

InodeNumber inode_number(std::string_view path, std::uint64_t attempt) {
  constexpr InodeNumber kMask = (InodeNumber{1} << 63) - 1;
  const InodeNumber number = hash(path, attempt) & kMask;
  return number > kRootInode ? number : number + 2;
}

InodeNumber version_inode_number(std::uint64_t version, std::string_view path,
                                 std::uint64_t attempt) {
  constexpr unsigned kAttemptBits = 16;
  return inode_number(path, version << kAttemptBits | attempt);
}

BranchNumber branch_number(std::string_view name, std::uint64_t attempt) {
  return static_cast<BranchNumber>(hash(name, attempt)) & kMaxBranchNumber;
}

InodeNumber trunk_inode_number(std::string_view path, std::uint64_t attempt) {
  const InodeNumber number = inode_number(path, attempt) & ~kBranchBit;
  return number > kRootInode ? number : number + 2;
}

InodeNumber branch_inode_number(BranchNumber branch, std::string_view path, std::uint64_t attempt) {
  const InodeNumber within = hash(path, attempt) & 0xffff'ffff;
  return kBranchBit | InodeNumber{branch} << 32 | within;
}

}  // namespace reshardfs
