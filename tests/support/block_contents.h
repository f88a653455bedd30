// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace reshardfs::test {

/// Bytes that follow from an object and the number of a block, and are other ones for any other.
inline std::vector<std::byte> block_contents(std::string_view identity, std::uint64_t block,
                                             std::size_t size) {
  std::uint64_t state = 0xcbf29ce484222325 ^ (block * 0x9e3779b97f4a7c15);
  for (const char c : identity) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size; at += sizeof(state)) {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t word = (state ^ (state >> 30U)) * 0xbf58476d1ce4e5b9;
    word ^= word >> 27U;
    std::memcpy(&bytes[at], &word, std::min(sizeof(word), size - at));
  }
  return bytes;
}

}  // namespace reshardfs::test
