// SPDX-License-Identifier: Apache-2.0
/// How values of a pickle are packed into 60 bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/torch/pickle_tree.h"

namespace reshardfs::pickle {

// A text is where it stands in the file: 37 bits of its start, 23 of its length.
constexpr unsigned kTextLengthBits = 23;
constexpr std::uint64_t kMaxTextLength = (1ULL << kTextLengthBits) - 1;
constexpr std::uint64_t kMaxTextStart = (1ULL << 37U) - 1;
// A tuple is a stretch of the tree's values: 33 bits of its start, 20 of its length, 7 of its
// depth.
constexpr unsigned kDepthBits = 7;
constexpr unsigned kTupleLengthBits = 20;
constexpr std::uint64_t kMaxTupleLength = (1ULL << kTupleLengthBits) - 1;
constexpr std::uint64_t kMaxTupleStart = (1ULL << 33U) - 1;
// A number has its own sign.
constexpr std::int64_t kMaxInline = (1LL << 59U) - 1;
constexpr std::int64_t kMinInline = -(1LL << 59U);

/// The number of nodes allowed for any length; further nodes must take some bytes each.
constexpr std::size_t kFreeNodes = 65536;

constexpr PickleValue number(std::int64_t value) noexcept {
  return {PickleKind::kInt, static_cast<std::uint64_t>(value)};
}
constexpr std::int64_t inline_number(PickleValue value) noexcept {
  return static_cast<std::int64_t>(value.payload() << 4U) >> 4U;
}

constexpr PickleValue text(PickleKind kind, std::uint64_t start, std::uint64_t length) noexcept {
  return {kind, start << kTextLengthBits | length};
}
constexpr std::uint64_t start_of_text(PickleValue value) noexcept {
  return value.payload() >> kTextLengthBits;
}
constexpr std::uint64_t length_of_text(PickleValue value) noexcept {
  return value.payload() & kMaxTextLength;
}

constexpr PickleValue tuple(std::uint64_t start, std::uint64_t length, unsigned depth) noexcept {
  return {PickleKind::kTuple, (start << kTupleLengthBits | length) << kDepthBits | depth};
}
constexpr unsigned depth_of_tuple(PickleValue value) noexcept {
  return static_cast<unsigned>(value.payload() & ((1ULL << kDepthBits) - 1));
}
constexpr std::uint64_t length_of_tuple(PickleValue value) noexcept {
  return value.payload() >> kDepthBits & kMaxTupleLength;
}
constexpr std::uint64_t start_of_tuple(PickleValue value) noexcept {
  return value.payload() >> (kDepthBits + kTupleLengthBits);
}

}  // namespace reshardfs::pickle
