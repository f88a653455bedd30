// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>

#include "kill_points.h"

namespace reshardfs::test {

/// Twice what the bound lets in.
inline constexpr std::uint64_t kMaxBytes = 20 << 20;
inline constexpr std::uint64_t kObjects = 5;
inline constexpr std::uint64_t kBlocksOfObject = 12;

/// What a process says at its end.
struct UserReport {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evicted = 0;
  std::uint64_t bad = 0;
  std::uint64_t failures = 0;
};

/// Reads blocks and values, compares what it gets, and writes what is not there, until `stop` is
/// closed at its other end.
/// @param point where it shall stop, unless that is at any moment.
/// @param events gets kUsedBlock for each block.
/// @param report gets a UserReport at the end.
/// @return the exit code: 1 if anything was wrong.
int use_cache(const std::filesystem::path& directory, std::uint64_t seed, const KillPoint& point,
              int stop, int events, int report);

/// Compares all that is in the cache. @return blocks and values that are wrong.
std::uint64_t wrong_in(const std::filesystem::path& directory);

/// Puts a wrong block into it whose checksum is right.
void put_wrong_block(const std::filesystem::path& directory);

}  // namespace reshardfs::test
