// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <vector>

#include "reshardfs/rank.h"

namespace reshardfs {

/// For GoogleTest's messages.
inline void PrintTo(Rank rank, std::ostream* out) {
  *out << "rank " << rank.number();
}

namespace test {

inline std::vector<Rank> ranks(std::initializer_list<std::int64_t> numbers) {
  std::vector<Rank> list;
  for (const std::int64_t number : numbers) list.emplace_back(number);
  return list;
}

/// Ranks 0 to count - 1.
inline RankRange first_ranks(std::int64_t count) {
  return {Rank(), count};
}

}  // namespace test
}  // namespace reshardfs
