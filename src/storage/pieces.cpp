// SPDX-License-Identifier: Apache-2.0
#include "storage/pieces.h"

#include <cstring>
#include <type_traits>

namespace reshardfs {

void copy_pieces(const std::byte* from, const Pieces& pieces, std::byte* out) noexcept {
  // A constant length lets the compiler turn the copy into a few moves.
  const auto copy = [&](auto length) {
    for (std::uint64_t i = 0; i < pieces.count; ++i) {
      std::memcpy(out + i * pieces.out_stride, from + i * pieces.stride, length);
    }
  };
  switch (pieces.length) {
    case 2:
      return copy(std::integral_constant<std::size_t, 2>());
    case 4:
      return copy(std::integral_constant<std::size_t, 4>());
    case 8:
      return copy(std::integral_constant<std::size_t, 8>());
    case 16:
      return copy(std::integral_constant<std::size_t, 16>());
    case 32:
      return copy(std::integral_constant<std::size_t, 32>());
    case 64:
      return copy(std::integral_constant<std::size_t, 64>());
    default:
      return copy(static_cast<std::size_t>(pieces.length));
  }
}

}  // namespace reshardfs
