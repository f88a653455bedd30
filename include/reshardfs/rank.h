// SPDX-License-Identifier: Apache-2.0
/// The number of a device in a job.
///
/// Functions pass a Rank, never a bare integer: numbers of ranks, stages and devices in a stage are
/// integers, too, and easily confused with ranks.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "reshardfs/export.h"

namespace reshardfs {

/// A device of the whole job. Invariant: it is not negative. It costs no more than an integer.
class Rank {
 public:
  /// Rank 0.
  constexpr Rank() noexcept = default;
  /// @throws Error kBadInput if the number is negative.
  constexpr explicit Rank(std::int64_t number) : number_(number) {
    if (number < 0) refuse(number);
  }

  constexpr std::int64_t number() const noexcept { return number_; }
  /// The index in a list with one item for each rank from 0 on.
  constexpr std::size_t index() const noexcept { return static_cast<std::size_t>(number_); }

  /// @throws Error kBadInput if the next rank exceeds 64 bits.
  constexpr Rank& operator++() { return *this = *this + 1; }
  /// The rank `distance` above this one; below it if `distance` is negative.
  /// @throws Error kBadInput if the result is negative or exceeds 64 bits.
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

/// The rank's number in decimal, as in messages and directory names.
inline std::string to_string(Rank rank) {
  return std::to_string(rank.number());
}

/// Consecutive ranks: size() of them, from first() on. Invariant: the rank after the last one is
/// valid.
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

  /// An empty range.
  constexpr RankRange() noexcept = default;
  /// @throws Error kBadInput if `count` is negative, or the rank after the last one exceeds 64
  ///        bits.
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
