// SPDX-License-Identifier: Apache-2.0
#include "format/ckpt/hop_predictor.h"

namespace reshardfs {
namespace {

/// As many hops in a row must be the same.
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

}  // namespace reshardfs
