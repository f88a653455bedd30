// SPDX-License-Identifier: Apache-2.0
#include "vfs/inode_number.h"

#include <xxhash.h>

namespace reshardfs {

InodeNumber inode_number(std::string_view path, std::uint64_t attempt) {
  constexpr InodeNumber kMask = (InodeNumber{1} << 63) - 1;
  const InodeNumber number =
      XXH3_64bits_withSeed(path.data(), path.size(), static_cast<XXH64_hash_t>(attempt)) & kMask;
  return number > kRootInode ? number : number + 2;
}

}  // namespace reshardfs
