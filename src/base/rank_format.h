// SPDX-License-Identifier: Apache-2.0
/// How fmt writes a rank.
#pragma once

#include <cstdint>

#include <fmt/format.h>

#include "reshardfs/rank.h"

/// As its number, with the same widths and alignments.
template <>
struct fmt::formatter<reshardfs::Rank> : fmt::formatter<std::int64_t> {
  template <typename Context>
  auto format(reshardfs::Rank rank, Context& context) const {
    return fmt::formatter<std::int64_t>::format(rank.number(), context);
  }
};
