// SPDX-License-Identifier: Apache-2.0
#include "storage/strided_ranges.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "reshardfs/error.h"

#include "base/checked.h"

namespace reshardfs {
namespace {

ByteRange span_of(const ByteRange& first, std::uint64_t count, std::uint64_t stride) {
  if (count == 0 || (count > 1 && stride < first.length())) {
    throw Error(ErrorKind::kBadInput, std::to_string(count) + " ranges of " +
                                          std::to_string(first.length()) + " bytes, one every " +
                                          std::to_string(stride) + ", cannot be");
  }
  constexpr const char* kWhat = "the end of the last of some ranges";
  const std::uint64_t to_last = mul_or_throw(count - 1, stride, kWhat);
  return {first.offset(), add_or_throw(to_last, first.length(), kWhat)};
}

}  // namespace

StridedRanges::StridedRanges(ByteRange first, std::uint64_t count, Strides strides)
    : span_(span_of(first, count, strides.source)),
      length_(first.length()),
      count_(count),
      strides_(strides) {}

StridedRanges StridedRanges::part(std::uint64_t begin, std::uint64_t count) const {
  return {ByteRange(offset_of(begin), length_), std::min(count, count_ - begin), strides_};
}

void copy_ranges(const std::byte* from, const StridedRanges& ranges, std::byte* out) noexcept {
  // A processor foresees what follows within a range, but not where the next one begins. Many
  // ranges are under way at once, and each may lie in two lines of its cache.
  constexpr std::uint64_t kForeseen = 24;
  // Values of this function's own: a copy cannot change them.
  const std::uint64_t count = ranges.count();
  const std::uint64_t stride = ranges.stride();
  const std::uint64_t out_stride = ranges.out_stride();
  // A constant length lets the compiler turn the copy into a few moves.
  const auto copy = [=](auto length, auto copy_one) {
    const std::byte* range = from;
    std::byte* to = out;
    for (std::uint64_t i = 0; i < count; ++i, range += stride, to += out_stride) {
      const std::byte* const foreseen = range + kForeseen * stride;
      __builtin_prefetch(foreseen);
      __builtin_prefetch(foreseen + length - 1);
      copy_one(to, range);
    }
  };
  const auto copy_at_once = [=](auto length) {
    copy(length, [=](std::byte* to, const std::byte* range) { std::memcpy(to, range, length); });
  };
  switch (ranges.length()) {
    case 2:
      return copy_at_once(std::integral_constant<std::size_t, 2>());
    case 4:
      return copy_at_once(std::integral_constant<std::size_t, 4>());
    case 8:
      return copy_at_once(std::integral_constant<std::size_t, 8>());
    case 16:
      return copy_at_once(std::integral_constant<std::size_t, 16>());
    case 32:
      return copy_at_once(std::integral_constant<std::size_t, 32>());
    case 48:
      return copy_at_once(std::integral_constant<std::size_t, 48>());
    case 64:
      return copy_at_once(std::integral_constant<std::size_t, 64>());
    default:
      break;
  }
  const auto length = static_cast<std::size_t>(ranges.length());
  constexpr std::size_t kVector = 16;
  constexpr std::size_t kFewVectors = 8 * kVector;
  if (length % kVector != 0 || length > kFewVectors) return copy_at_once(length);
  // Quicker than the call of a function.
  copy(length, [=](std::byte* to, const std::byte* range) {
    for (std::size_t at = 0; at < length; at += kVector) std::memcpy(to + at, range + at, kVector);
  });
}

}  // namespace reshardfs
