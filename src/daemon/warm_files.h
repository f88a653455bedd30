// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process/progress.h"

namespace reshardfs {

/// Bytes of a file's pages that the kernel has in memory (cachestat(2), Linux 6.5); nothing where
/// it does not tell: an older kernel, or a file of another user.
std::optional<std::uint64_t> cached_bytes(int file) noexcept;

/// Bytes of memory that are free or can be made free, as the kernel estimates (MemAvailable), and
/// no more than what the control group allows. @throws Error kIo
std::uint64_t available_memory();

struct FileToWarm {
  std::filesystem::path path;
  std::uint64_t size = 0;  ///< bytes, more than 0
};

/// The regular files of `paths`, and those that listings of directories among them show, each once,
/// in order. Symbolic links below a directory are not followed, and empty files are left out.
/// @throws Error kMissing, kIo; kUsage if a path has no file with any bytes.
std::vector<FileToWarm> files_to_warm(const std::vector<std::filesystem::path>& paths);

/// @throws Error kUsage if the files are larger than the memory that is available for them: their
///         pages would displace each other.
void require_memory_for(const std::vector<FileToWarm>& files);

struct WarmOptions {
  std::size_t threads = 0;  ///< 0: a number that suits waiting for storage
  Progress* progress = nullptr;
};

struct Warmed {
  std::uint64_t bytes = 0;              ///< that were read
  std::optional<std::uint64_t> cached;  ///< bytes that are in memory now, where the kernel tells
  std::vector<std::string> failures;    ///< a message for each file that could not be read
};

/// Reads all files, pieces of them at the same time. A file that cannot be read keeps no other from
/// being read.
Warmed warm_files(const std::vector<FileToWarm>& files, const WarmOptions& options);

}  // namespace reshardfs
