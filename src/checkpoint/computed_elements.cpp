// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/computed_elements.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace reshardfs {

void ComputedElements::read(const ReadRequest& part) const {
  std::uint64_t element = part.offset / width_;
  std::size_t skipped = part.offset % width_;
  std::span<std::byte> out = part.out;
  while (!out.empty()) {
    const std::uint64_t whole = skipped == 0 ? out.size() / width_ : 0;
    if (whole > 0) {
      make(element, whole, part.foreseen, out.data());
      element += whole;
      out = out.subspan(static_cast<std::size_t>(whole * width_));
      continue;
    }
    // Some bytes of it are wanted.
    std::array<std::byte, sizeof(std::uint64_t)> one{};
    make(element++, 1, part.foreseen, one.data());
    const std::size_t taken = std::min(width_ - skipped, out.size());
    std::memcpy(out.data(), one.data() + skipped, taken);
    out = out.subspan(taken);
    skipped = 0;
  }
  check_unchanged();
}

}  // namespace reshardfs
