// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

/// A line of a file in the format of fstab(5).
struct FstabEntry {
  std::size_t line = 0;  ///< counted from 1
  std::string source{};
  std::string mountpoint{};
  std::string type{};
  std::vector<std::string> options{};

  bool has_option(std::string_view word) const;
};

/// The entries whose type is that of reshardfs: "reshardfs" or "fuse.reshardfs".
std::vector<FstabEntry> reshardfs_entries(std::string_view fstab);

}  // namespace reshardfs
