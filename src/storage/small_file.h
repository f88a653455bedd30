// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "storage/source_tree.h"

namespace reshardfs {

struct SmallFile {
  std::string content;
  std::int64_t mtime_ns = 0;  ///< see ByteSource
};

/// As read_small_file(), with the time of the version that was read.
/// @throws what that throws.
SmallFile open_small_file(const std::filesystem::path& path, std::uint64_t max_bytes,
                          const SourceTreePtr& tree);

}  // namespace reshardfs
