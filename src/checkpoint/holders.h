// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
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

  Holders() = default;
  Holders(const Holders& other) : one_(other.one_) {
    if (const auto* const all = other.many()) keep(*all);
  }
  Holders(Holders&& other) noexcept : one_(std::exchange(other.one_, {})) {}
  Holders& operator=(Holders other) noexcept {
    std::swap(one_, other.one_);
    return *this;
  }
  ~Holders() { delete many(); }

  bool empty() const noexcept { return rows().empty(); }
  std::size_t size() const noexcept;
  Holding front() const { return {rows().front().first, rows().front().entry}; }
  Iterator begin() const { return Iterator(rows().data()); }
  Iterator end() const { return Iterator(rows().data() + rows().size()); }
  std::span<const Row> rows() const noexcept {
    if (const auto* const all = many()) return *all;
    return {&one_, one_.count == 0 ? std::size_t{0} : std::size_t{1}};
  }

  /// The holders among these ranks.
  Holders within(const RankRange& ranks) const;

 private:
  using List = std::vector<Row>;
  /// More files than there can be: then all rows are in a list, whose address stands for the first
  /// file. Of a million parameters nearly each has one row.
  static constexpr std::size_t kAtList = SIZE_MAX;

  List* many() const noexcept {
    if (one_.count != kAtList) return nullptr;
    return reinterpret_cast<List*>(const_cast<RankFile*>(one_.first));  // NOLINT: keep() wrote it
  }
  void keep(List all) {
    auto* const list = new List(std::move(all));
    one_ = {reinterpret_cast<const RankFile*>(list), kAtList, nullptr};  // NOLINT
  }

  Row one_;  ///< of none if its count is 0
};

/// Whether all have the same shape.
bool has_one_shape(const Holders& holders);
/// "ranks 0-3: Float32 [4, 8]; rank 4: Float16 [4, 8]": the first two kinds that differ.
std::string differing_words(const Holders& holders);

}  // namespace reshardfs
