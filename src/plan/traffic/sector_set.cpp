// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/sector_set.h"

#include <algorithm>
#include <bit>

namespace reshardfs {
namespace {

constexpr std::uint64_t kBits = 64;

/// Bits from `first` on to before `end`, both within one word.
std::uint64_t mask(std::uint64_t first, std::uint64_t end) noexcept {
  const std::uint64_t below_end = end == kBits ? ~std::uint64_t{0} : (std::uint64_t{1} << end) - 1;
  return below_end & ~((std::uint64_t{1} << first) - 1);
}

/// The bytes of a file in `count` of its units, of which it has the last one or not.
std::uint64_t bytes_of(std::uint64_t count, std::uint64_t unit, bool has_last, std::uint64_t size) {
  const std::uint64_t cut = has_last && size % unit != 0 ? unit - size % unit : 0;
  return count * unit - cut;
}

}  // namespace

SectorSet::SectorSet(std::uint64_t size, const CacheGrain& grain)
    : size_(size),
      grain_(grain),
      bits_(static_cast<std::size_t>((size + grain.sector - 1) / grain.sector / kBits + 1)) {}

void SectorSet::add(const ByteRange& range) {
  if (range.empty()) return;
  std::uint64_t first = range.offset() / grain_.sector;
  const std::uint64_t end = (range.end() - 1) / grain_.sector + 1;
  while (first < end) {
    const std::uint64_t in_word = first % kBits;
    const std::uint64_t count = std::min(end - first, kBits - in_word);
    bits_[static_cast<std::size_t>(first / kBits)] |= mask(in_word, in_word + count);
    first += count;
  }
}

void SectorSet::add(const StridedBytes& pieces) {
  // A gap that is shorter than a sector leaves none out.
  if (pieces.count == 1 || pieces.stride - pieces.length < grain_.sector) {
    return add(ByteRange(pieces.offset, (pieces.count - 1) * pieces.stride + pieces.length));
  }
  for (std::uint64_t i = 0; i < pieces.count; ++i) {
    add(ByteRange(pieces.offset + i * pieces.stride, pieces.length));
  }
}

std::uint64_t SectorSet::bytes() const noexcept {
  if (size_ == 0) return 0;
  std::uint64_t count = 0;
  for (const std::uint64_t word : bits_) count += static_cast<std::uint64_t>(std::popcount(word));
  const std::uint64_t last = (size_ - 1) / grain_.sector;
  const bool has_last = (bits_[static_cast<std::size_t>(last / kBits)] >> last % kBits & 1U) != 0;
  return bytes_of(count, grain_.sector, has_last, size_);
}

std::uint64_t SectorSet::block_bytes() const noexcept {
  if (size_ == 0) return 0;
  const std::uint64_t sectors = grain_.block / grain_.sector;
  const std::uint64_t blocks = (size_ - 1) / grain_.block + 1;
  std::uint64_t count = 0;
  bool has_last = false;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    has_last = false;
    for (std::uint64_t s = block * sectors; s < (block + 1) * sectors && !has_last; ++s) {
      const auto word = static_cast<std::size_t>(s / kBits);
      has_last = word < bits_.size() && (bits_[word] >> s % kBits & 1U) != 0;
    }
    if (has_last) ++count;
  }
  return bytes_of(count, grain_.block, has_last, size_);
}

}  // namespace reshardfs
