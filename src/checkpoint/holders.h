// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

#include "checkpoint/ranks/rank_file.h"

namespace reshardfs {

/// A parameter in one rank's file. The pointers belong to a CheckpointSet.
struct Holding {
  const RankFile* file = nullptr;
  const TensorEntry* entry = nullptr;

  explicit operator bool() const noexcept { return entry != nullptr; }
  bool operator==(const Holding&) const = default;
};

/// The files that hold a parameter, ascending by rank; a file with several boxes of it occurs once
/// for each box. The files of a stage usually share one index and are adjacent in the checkpoint
/// set, so they are stored as one row.
class Holders {
 public:
  /// Files first[0] to first[count - 1], all with the same entry.
  struct Row {
    const RankFile* first = nullptr;
    std::size_t count = 0;
    const TensorEntry* entry = nullptr;

    bool operator==(const Row&) const = default;
  };

  /// Yields Holding values.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Holding;
    using difference_type = std::ptrdiff_t;
    using pointer = const Holding*;
    using reference = Holding;

    Iterator() = default;
    explicit Iterator(const Row* row) : row_(row) {}
    Holding operator*() const { return {row_->first + at_, row_->entry}; }
    Iterator& operator++() {
      if (++at_ == row_->count) {
        at_ = 0;
        ++row_;
      }
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const Row* row_ = nullptr;
    std::size_t at_ = 0;
  };

  /// Adds files that follow all present ones, or one more box of the last file.
  void add(const Row& row);

  bool empty() const noexcept { return rows_.empty(); }
  std::size_t size() const noexcept;
  Holding front() const { return {rows_.front().first, rows_.front().entry}; }
  Iterator begin() const { return Iterator(rows_.data()); }
  Iterator end() const { return Iterator(rows_.data() + rows_.size()); }
  const std::vector<Row>& rows() const noexcept { return rows_; }

  /// The holders among these ranks.
  Holders within(const RankRange& ranks) const;

 private:
  std::vector<Row> rows_;
};

/// Whether all have the same shape.
bool has_one_shape(const Holders& holders);
/// "ranks 0-3: Float32 [4, 8]; rank 4: Float16 [4, 8]": the first two kinds that differ.
std::string differing_words(const Holders& holders);

}  // namespace reshardfs
