// SPDX-License-Identifier: Apache-2.0
/// Which device of a job it is.
///
/// A rank travels as a Rank, never as a bare integer: how many ranks there are, a stage's number
/// and a device's place in its stage are integers, too, and one is soon taken for the other.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "reshardfs/export.h"

namespace reshardfs {

/// A device of the whole job. What holds of each: it is not negative. Costs what its number costs.
class Rank {
 public:
  /// Rank 0.
  constexpr Rank() noexcept = default;
  /// @throws Error kBadInput if the number is negative.
  constexpr explicit Rank(std::int64_t number) : number_(number) {
    if (number < 0) refuse(number);
  }

  constexpr std::int64_t number() const noexcept { return number_; }
  /// Its place in a list that has something for each rank from 0 on.
  constexpr std::size_t index() const noexcept { return static_cast<std::size_t>(number_); }

  /// @throws Error kBadInput if there is none behind it in 64 bits.
  constexpr Rank& operator++() { return *this = *this + 1; }
  /// The rank that is `distance` further up, or down where it is negative.
  /// @throws Error kBadInput if that is before rank 0, or exceeds 64 bits.
  friend constexpr Rank operator+(Rank rank, std::int64_t distance) {
    if (distance > std::numeric_limits<std::int64_t>::max() - rank.number_) {
      refuse_sum(rank.number_, distance);
    }
    return Rank(rank.number_ + distance);
  }
  /// How far `a` is above `b`; negative if it is below.
  friend constexpr std::int64_t operator-(Rank a, Rank b) noexcept { return a.number_ - b.number_; }

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  constexpr auto operator<=>(const Rank&) const noexcept = default;

 private:
  [[noreturn]] RESHARDFS_EXPORT static void refuse(std::int64_t number);
  [[noreturn]] RESHARDFS_EXPORT static void refuse_sum(std::int64_t number, std::int64_t distance);

  std::int64_t number_ = 0;
};

/// Its number, as messages and names of directories have it.
inline std::string to_string(Rank rank) {
  return std::to_string(rank.number());
}

/// Ranks one after the other: size() of them, from first() on. What holds of each: the rank behind
/// its last one is a rank.
class RankRange {
 public:
  /// Yields Rank values, ascending.
  class Iterator {
   public:
    using iterator_concept = std::forward_iterator_tag;
    using iterator_category = std::input_iterator_tag;
    using value_type = Rank;
    using difference_type = std::ptrdiff_t;
    using pointer = const Rank*;
    using reference = Rank;

    constexpr Iterator() noexcept = default;
    constexpr explicit Iterator(Rank rank) noexcept : rank_(rank) {}
    constexpr Rank operator*() const noexcept { return rank_; }
    constexpr Iterator& operator++() {
      ++rank_;
      return *this;
    }
    constexpr Iterator operator++(int) {  // NOLINT(cert-dcl21-cpp): const would forbid moving
      const Iterator before = *this;
      ++*this;
      return before;
    }
    constexpr bool operator==(const Iterator&) const noexcept = default;

   private:
    Rank rank_;
  };

  /// None.
  constexpr RankRange() noexcept = default;
  /// @throws Error kBadInput if `count` is negative, or there is no rank behind the last one.
  constexpr RankRange(Rank first, std::int64_t count) : first_(first), end_(first + count) {
    if (count < 0) refuse(count);
  }

  constexpr Rank first() const noexcept { return first_; }
  constexpr std::int64_t size() const noexcept { return end_ - first_; }
  constexpr bool empty() const noexcept { return first_ == end_; }
  constexpr bool contains(Rank rank) const noexcept { return first_ <= rank && rank < end_; }

  constexpr Iterator begin() const noexcept { return Iterator(first_); }
  constexpr Iterator end() const noexcept { return Iterator(end_); }

  constexpr bool operator==(const RankRange&) const noexcept = default;

 private:
  [[noreturn]] RESHARDFS_EXPORT static void refuse(std::int64_t count);

  Rank first_;
  Rank end_;
};

}  // namespace reshardfs
