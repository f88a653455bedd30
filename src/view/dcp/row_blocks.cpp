// SPDX-License-Identifier: Apache-2.0
#include "view/dcp/row_blocks.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kUnit = std::uint64_t{64} << 10U;

}  // namespace

std::int64_t rows_of_block(std::int64_t rows, std::uint64_t bytes) noexcept {
  std::int64_t blocks = 1;
  const auto fits = [&](std::int64_t count) {
    return static_cast<std::uint64_t>(count * count) * kUnit <= bytes;
  };
  while (blocks < kMostRowBlocks && fits(2 * blocks)) blocks *= 2;
  return rows / blocks + (rows % blocks != 0 ? 1 : 0);
}

}  // namespace reshardfs
