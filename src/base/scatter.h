// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace reshardfs {

/// A number that looks random, and is always the same for the same `number` (splitmix64).
constexpr std::uint64_t scatter(std::uint64_t number) noexcept {
  std::uint64_t z = (number + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace reshardfs
