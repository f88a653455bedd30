// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/rank.h"

namespace reshardfs {

/// How parameters that are cut alike are saved as MindSpore Transformers' Checkpoint 2.0: which
/// slice each rank has. Slices count row-major over the parts of the dimensions.
class SavedCut {
 public:
  /// @param layout whose devices are ranks in ascending order; without an optimizer cut.
  /// @param first_ranks of each pipeline stage that saves it, ascending; at least one.
  SavedCut(Layout layout, std::vector<Rank> first_ranks);
  /// Parameters without a layout: each of these ranks saves the whole.
  /// @param ranks ascending; at least one.
  static SavedCut whole(std::vector<Rank> ranks);

  /// nullptr: every rank saves the whole.
  const Layout* layout() const noexcept { return layout_ ? &*layout_ : nullptr; }
  /// The parts of each dimension; none without a layout.
  const std::vector<std::int64_t>& splits() const noexcept { return splits_; }
  /// Those of the first stage, which the layout is about; without a layout all.
  const std::vector<Rank>& ranks() const noexcept { return ranks_; }
  /// The slice of each of these ranks.
  const std::vector<std::int64_t>& slices() const noexcept { return slices_; }

  struct Slice {
    std::vector<Rank> ranks;   ///< that save it, ascending
    std::uint64_t digits = 0;  ///< of all their numbers
  };
  /// By the slice's number.
  const std::vector<Slice>& saved() const noexcept { return saved_; }
  /// The number of the slice that a rank is the first one to save.
  std::optional<std::int64_t> first_saved_by(Rank rank) const;

 private:
  SavedCut() = default;
  void add(std::int64_t slice, Rank rank);

  std::optional<Layout> layout_;
  std::vector<std::int64_t> splits_;
  std::vector<Rank> ranks_;
  std::vector<std::int64_t> slices_;
  std::vector<Slice> saved_;
};

}  // namespace reshardfs
