// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace load {

/// What a reader has done. It lies in a map of a file, as little-endian numbers of 64 bits in this
/// order, so that it survives the reader's being killed: load_mount.py reads it.
struct Tally {
  /// A duration of n nanoseconds falls into the bucket 16 * e + m, where n is in
  /// [(16 + m) * 2^e, (17 + m) * 2^e): wide enough for half an hour, with an error of 1/16.
  static constexpr std::size_t kBuckets = 16 * 37;

  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t errors = 0;
  std::uint64_t openings = 0;
  std::uint64_t maps = 0;
  std::uint64_t whole_files = 0;
  std::uint64_t slowest_ns = 0;
  std::array<std::uint64_t, kBuckets> durations{};

  void note(std::chrono::nanoseconds duration) noexcept;
};

/// The tally of a file, which must be there and large enough or empty. Stays mapped.
/// @throws std::system_error
Tally& map_tally(const std::filesystem::path& file);

}  // namespace load
