// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/bounded_check.h"

namespace reshardfs {

/// The type for which mount(8) runs mount.reshardfs.
inline constexpr const char* kHelperType = "reshardfs";

/// A line of a file in the format of fstab(5).
struct FstabEntry {
  std::size_t line = 0;  ///< counted from 1
  std::string source{};
  std::string mountpoint{};
  std::string type{};
  std::vector<std::string> options{};

  bool has_option(std::string_view word) const;
};

struct FstabFile {
  /// Those whose type is "reshardfs", "fuse.reshardfs" or like one of them.
  std::vector<FstabEntry> entries;
  /// The lines that are neither entries nor comments; mount(8) passes over them.
  std::vector<std::size_t> unreadable;
};

FstabFile parse_fstab(std::string_view text);

/// Every mount of reshardfs in a file in the format of fstab(5): what mount(8) would run for it,
/// and the words that the boot needs.
Findings check_fstab(const std::string& file, const BoundedChecks& bounded);

}  // namespace reshardfs
