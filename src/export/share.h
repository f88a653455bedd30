// SPDX-License-Identifier: Apache-2.0
/// How the files of one export are shared out among processes that do not talk to each other: each
/// computes the same split and takes its own share.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

namespace reshardfs {

/// One of `count` shares, counted from 0 as ranks and tasks are.
struct Share {
  std::uint64_t index = 0;
  std::uint64_t count = 1;

  auto operator<=>(const Share&) const noexcept = default;
};

inline constexpr std::uint64_t kMaxShares = std::uint64_t{1} << 16U;

/// "3/16", as --share takes it.
std::string to_string(const Share& share);

/// A share of a certain split: of the same conversion there may be others, of other ranks or views.
struct SharePlan {
  Share share{};
  /// A sum of all shares' files and sizes.
  std::string files_sum{};

  bool operator==(const SharePlan&) const noexcept = default;
};

/// The share of each unit. Units are assigned from the largest to the smallest, each to the share
/// with the fewest bytes (the first of equals); of units of equal size, each share gets consecutive
/// ones. Sizes that differ by less than 1/128 may count as equal. So a share has at most (1 +
/// 1/128) * (all bytes / count + bytes of the largest unit).
/// @param count at least 1.
std::vector<std::size_t> split_units(std::span<const std::uint64_t> bytes, std::size_t count);

/// The files of a share, in their order. All files of a rank's directory are in one share; any
/// other file may be in any share. Depends on nothing but paths, sizes and the share.
/// @throws Error kBadInput if sizes exceed 64 bits.
std::vector<const OutputFile*> files_of_share(const std::vector<const OutputFile*>& files,
                                              const Share& share);

/// @param files of all shares.
SharePlan plan_share(const std::vector<const OutputFile*>& files, const Share& share);

/// The target rank whose directory contains a path; nullopt for other paths.
std::optional<Rank> rank_of_path(const std::string& path);

}  // namespace reshardfs
