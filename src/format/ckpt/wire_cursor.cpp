// SPDX-License-Identifier: Apache-2.0
#include "format/ckpt/wire_cursor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// The number of equal hops in a row that is required.
constexpr std::size_t kContext = 3;

bool are_near(std::uint64_t a, std::uint64_t b) noexcept {
  return (a > b ? a - b : b - a) <= HopPredictor::kTolerance;
}

}  // namespace

std::size_t HopPredictor::period() const noexcept {
  const std::size_t count = hops_.size();
  for (std::size_t distance = 1; distance + kContext <= count; ++distance) {
    bool same = true;
    for (std::size_t i = 1; i <= kContext && same; ++i) {
      same = are_near(hops_[count - i], hops_[count - i - distance]);
    }
    if (same) return distance;
  }
  return 0;
}

std::vector<std::uint64_t> HopPredictor::hop_to(std::uint64_t place, std::uint64_t size) {
  if (!begun_ || place <= last_) {
    begun_ = true;
    last_ = place;
    hops_.clear();
    expected_.clear();
    return {};
  }
  if (hops_.size() == kMaxHops) hops_.erase(hops_.begin(), hops_.begin() + kMaxHops / 2);
  hops_.push_back(place - last_);
  last_ = place;
  // What was passed over was wrong; so is all if this place was not among them.
  while (!expected_.empty() && !are_near(expected_.front(), place)) expected_.pop_front();
  if (!expected_.empty()) expected_.pop_front();
  if (expected_.size() > kAhead / 2) return {};

  const std::size_t repeats = period();
  if (repeats == 0) return {};
  std::vector<std::uint64_t> told;
  std::uint64_t next = place;
  for (std::size_t i = 0; i < kAhead; ++i) {
    next += hops_[hops_.size() - repeats + i % repeats];
    if (next >= size) break;
    if (i < expected_.size()) continue;
    expected_.push_back(next);
    told.push_back(next);
  }
  return told;
}

namespace {

constexpr const char* kIncompleteHint = "the file is damaged or not complete";

Error wire_error(std::uint64_t offset, const std::string& message) {
  return Error(ErrorKind::kBadInput, message).at_offset(offset);
}

WireType checked_type(std::uint64_t key, std::uint64_t offset) {
  switch (key & 7U) {
    case 0:
    case 1:
    case 2:
    case 5:
      return static_cast<WireType>(key & 7U);
    case 3:
    case 4:
      throw wire_error(offset, "a protobuf group is here, which no checkpoint has");
    default:
      throw wire_error(offset, "wire type " + std::to_string(key & 7U) + " does not exist");
  }
}

}  // namespace

WireField WireCursor::read_field(std::uint64_t end) {
  field_offset_ = position_;
  const std::uint64_t key = read_varint(end);
  if (key > std::numeric_limits<std::uint32_t>::max() || key >> 3U == 0) {
    throw wire_error(field_offset_, "field number " + std::to_string(key >> 3U) + " is impossible");
  }
  WireField field;
  field.number = static_cast<std::uint32_t>(key >> 3U);
  field.type = checked_type(key, field_offset_);
  if (field.type == WireType::kVarint || field.type == WireType::kBytes) {
    field.value = read_varint(end);
    return field;
  }
  const std::uint64_t width = field.type == WireType::kFixed64 ? 8 : 4;
  if (end - position_ < width) {
    throw wire_error(field_offset_, "a number of " + std::to_string(width) + " bytes is cut off")
        .hint(kIncompleteHint);
  }
  position_ += width;
  return field;
}

std::uint64_t WireCursor::payload_end(const WireField& field, std::uint64_t end) const {
  const std::uint64_t left = end - position_;
  if (field.value <= left) return position_ + field.value;
  throw wire_error(field_offset_, "field " + std::to_string(field.number) + " states " +
                                      std::to_string(field.value) + " bytes, but only " +
                                      std::to_string(left) + " are left in " +
                                      (end == file_size_ ? "the file" : "the enclosing message"))
      .hint(kIncompleteHint);
}

std::uint64_t WireCursor::read_varint(std::uint64_t end) {
  const std::uint64_t start = position_;
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (position_ >= end) {
      throw wire_error(start, end == file_size_
                                  ? "the file ends inside a number"
                                  : "a number crosses the end of the enclosing message")
          .hint(kIncompleteHint);
    }
    if (!in_window()) fill();
    const auto byte = std::to_integer<std::uint64_t>(window_[position_ - window_begin_]);
    ++position_;
    // The tenth byte holds the 64th bit and no other.
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
  throw wire_error(start, "a number has more than 64 bits");
}

std::string WireCursor::read_bytes(std::uint64_t length) {
  std::string text(length, '\0');
  for (std::size_t done = 0; done < length;) {
    if (!in_window()) fill();
    const std::size_t at = position_ - window_begin_;
    const std::size_t count = std::min<std::size_t>(length - done, window_bytes_ - at);
    std::memcpy(text.data() + done, window_.data() + at, count);
    done += count;
    position_ += count;
  }
  return text;
}

void WireCursor::foresee() {
  std::vector<ByteRange> ranges;
  for (const std::uint64_t place : hops_.hop_to(position_, file_size_)) {
    const std::uint64_t begin = place - std::min(place, HopPredictor::kTolerance);
    const std::uint64_t end =
        std::min(place + HopPredictor::kTolerance + kFarWindowBytes, file_size_);
    ranges.push_back(ByteRange::between(begin, end));
  }
  if (!ranges.empty()) source_.foresee(ranges, Foresight::kApart);
}

void WireCursor::fill() {
  const bool far = position_ < window_begin_ || position_ - window_begin_ > kWindowBytes;
  const std::size_t bytes =
      std::min<std::uint64_t>(far ? kFarWindowBytes : kWindowBytes, file_size_ - position_);
  if (far && source_.is_far()) foresee();
  window_bytes_ = 0;  // stays so if the read throws
  source_.read_at(position_, std::span(window_).first(bytes));
  window_begin_ = position_;
  window_bytes_ = bytes;
}

}  // namespace reshardfs
