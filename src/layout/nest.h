// SPDX-License-Identifier: Apache-2.0
/// Elements of one space and their places in another one, as nested loops: what a box of a tensor
/// takes from a slice, or a byte range of a slice from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "reshardfs/shape.h"

#include "base/inline_vector.h"

namespace reshardfs {

/// A tensor with more is refused.
inline constexpr std::size_t kMaxDimensions = 32;

/// Values of each dimension of a tensor, or of each axis of a form.
template <typename T>
using PerDimension = InlineVector<T, kMaxDimensions>;

/// Element from + sum(i_k * loop_k.from) of a source goes to element to + sum(i_k * loop_k.to) of a
/// destination. No two elements go to the same place.
class Nest {
 public:
  struct Loop {
    std::int64_t count = 1;
    std::int64_t from = 0;  ///< elements of the source from one index to the next; 0: the same one
    std::int64_t to = 0;    ///< elements of the destination; at least 1
  };

  std::int64_t from = 0;
  std::int64_t to = 0;

  /// The innermost first: by Loop::to, ascending. None has a single index.
  std::span<const Loop> loops() const noexcept { return loops_; }
  void add(const Loop& loop) noexcept;
  /// Takes a loop out. @return it
  Loop take(std::size_t number) noexcept;
  /// Makes one loop of two wherever they are one.
  void join() noexcept;
  std::int64_t elements() const noexcept;

 private:
  PerDimension<Loop> loops_;
};

inline void Nest::add(const Loop& loop) noexcept {
  if (loop.count == 1) return;
  std::size_t at = loops_.size();
  while (at > 0 && loops_[at - 1].to > loop.to) --at;
  loops_.insert(at, loop);
}

inline void Nest::join() noexcept {
  for (std::size_t i = 1; i < loops_.size();) {
    Loop& inner = loops_[i - 1];
    const Loop& outer = loops_[i];
    if (outer.from == inner.from * inner.count && outer.to == inner.to * inner.count) {
      inner.count *= outer.count;
      loops_.erase(i);
    } else {
      ++i;
    }
  }
}

inline std::int64_t Nest::elements() const noexcept {
  std::int64_t count = 1;
  for (const Loop& loop : loops()) count *= loop.count;
  return count;
}

/// Calls visit(from, to) at each index of a nest's loops.
template <typename Visit>
void for_each_index(const Nest& nest, Visit&& visit) {
  const auto loops = nest.loops();
  PerDimension<std::int64_t> at(loops.size());
  std::int64_t from = nest.from;
  std::int64_t to = nest.to;
  while (true) {
    visit(from, to);
    std::size_t i = 0;
    for (; i < loops.size(); ++i) {
      from += loops[i].from;
      to += loops[i].to;
      if (++at[i] < loops[i].count) break;
      from -= loops[i].from * loops[i].count;
      to -= loops[i].to * loops[i].count;
      at[i] = 0;
    }
    if (i == loops.size()) return;
  }
}

/// `count` indexes of one dimension, `step` apart.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t count = 1;
  std::int64_t step = 1;  ///< at least 1
  std::int64_t to = 0;    ///< elements of the destination from one index to the next

  std::int64_t last() const noexcept { return begin + (count - 1) * step; }
};

/// One range of each dimension of a tensor, and where its elements go.
struct Region {
  PerDimension<IndexRange> ranges{};
  std::int64_t to = 0;  ///< of the first element

  /// Leaves the indexes of dimension `d` that are in [begin, end). @return false if there are none.
  bool clip(std::size_t d, std::int64_t begin, std::int64_t end) noexcept;
  std::int64_t elements() const noexcept;
};

/// Elements of one index of each dimension, in C order.
PerDimension<std::int64_t> element_strides(std::span<const std::int64_t> shape) noexcept;

/// `count` indices of a dimension, `step` apart.
struct DimensionLoop {
  std::size_t dimension = 0;
  std::int64_t count = 1;
  std::int64_t step = 1;
};

/// `count` elements of a tensor, `stride` elements apart, as loops along its dimensions, from the
/// innermost on. Nothing if they do not go along dimensions: they begin or end inside one, or step
/// over its end.
/// @param count at least 1.
/// @param stride at least 1.
std::optional<PerDimension<DimensionLoop>> along_dimensions(std::int64_t count, std::int64_t stride,
                                                            std::span<const std::int64_t> shape);

/// Copies the elements of a nest from memory: runs where elements follow one another on both sides,
/// or else planes, in blocks whose cache lines stay near on both sides.
/// @param from where element 0 of Nest::from is, @param to where that of Nest::to is.
/// @param element bytes: 1, 2, 4, 8 or 16.
void copy_elements(const std::byte* from, std::byte* to, const Nest& nest, std::size_t element);

}  // namespace reshardfs
