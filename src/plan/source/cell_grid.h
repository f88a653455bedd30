// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "checkpoint/holders.h"
#include "layout/axis_partition.h"
#include "layout/box_set.h"
#include "plan/reading/content.h"

namespace reshardfs {

class MappedTensor;

/// How the slices of a parameter lie in the full tensor, and which file serves each: the same for
/// all parameters of one layout, shape and stage, which share it.
///
/// The cells are the product of the partitions' parts, or the boxes of a set that is no product.
struct CellPattern {
  Shape full_shape;
  std::vector<AxisPartition> partitions;  ///< one for each dimension of full_shape
  /// Of each cell, row-major over the parts of the partitions, or as the boxes are numbered.
  /// nullptr: no source file has it.
  std::vector<const RankFile*> files;
  /// Further files with the same slice, by the number of their cell, ascending.
  std::vector<std::pair<std::size_t, const RankFile*>> replicas;
  /// nullptr: a product. If not, the partitions have one part each; where boxes leave elements out,
  /// one more cell, which no file has, stands for all of these. A tensor without elements has one
  /// cell and no box.
  std::shared_ptr<const BoxSet> boxes{};
  /// What makes the tensor of the cells; nullptr: it is their product, or the boxes. If not, the
  /// cells are those of its sources, and the partitions have one part each.
  std::shared_ptr<const MappedTensor> mapped{};

  /// Of that full shape, with partitions of one part each, and no cell yet.
  static CellPattern uncut(Shape full_shape);

  bool complete() const noexcept;
};

/// The source shards of one parameter.
///
/// Invariant: a cell's entry has the cell's shape (the product of its part lengths) and the
/// grid's element type, so that offsets computed from the partitions are right in the file.
///
/// All constructors throw Error kUnsupported if the pattern cuts packed elements inside of a byte.
class CellGrid {
 public:
  /// @param entry the parameter in the index that all files of the pattern share.
  CellGrid(std::shared_ptr<const CellPattern> pattern, const TensorEntry& entry);
  /// @param entries of each cell's file its own; there is at least one. nullptr where the cell has
  ///        no file.
  CellGrid(std::shared_ptr<const CellPattern> pattern, std::vector<const TensorEntry*> entries);
  /// @param entries of each cell's file its own, nullptr where there is none; behind these, of each
  ///        replica's. So one file can have several cells.
  /// @param like an entry of the parameter.
  CellGrid(std::shared_ptr<const CellPattern> pattern, std::vector<const TensorEntry*> entries,
           const TensorEntry& like);

  /// Many grids share one.
  const CellPattern& pattern() const noexcept { return *pattern_; }
  const std::string& name() const noexcept { return entry_->name; }
  DType dtype() const noexcept { return entry_->dtype; }
  const Shape& full_shape() const noexcept { return pattern_->full_shape; }
  const std::vector<AxisPartition>& partitions() const noexcept { return pattern_->partitions; }
  /// The boxes that the cells are; nullptr: the cells are the product of partitions().
  const BoxSet* boxes() const noexcept { return pattern_->boxes.get(); }
  /// What makes the tensor of full tensors, the model map; nullptr: none does.
  const MappedTensor* mapped() const noexcept { return pattern_->mapped.get(); }
  std::size_t cell_count() const noexcept { return pattern_->files.size(); }
  /// An empty holding: no source file has the cell.
  Holding cell(std::size_t number) const noexcept {
    const RankFile* file = pattern_->files[number];
    if (file == nullptr) return {};
    return {file, entries_.empty() ? entry_ : entries_[number]};
  }
  /// The cell in another file that has it and that `usable` takes; an empty holding if there is
  /// none.
  Holding replica(std::size_t number,
                  const std::function<bool(const RankFile& file)>& usable) const;
  /// The same where replica() is to read in place of cell(): none if they may differ.
  Holding stand_in(std::size_t number,
                   const std::function<bool(const RankFile& file)>& usable) const {
    return replicas_differ_ ? Holding() : replica(number, usable);
  }
  bool complete() const noexcept { return pattern_->complete(); }

  /// A cell in a further file.
  struct Replica {
    std::size_t cell = 0;
    Holding holding;  ///< empty if the file does not have the parameter
  };
  std::size_t replica_count() const noexcept { return pattern_->replicas.size(); }
  /// 0 <= number < replica_count(); ascending by cell.
  Replica replica_at(std::size_t number) const;

  /// The same grid with the units of packed elements for elements, and their dimensions: see
  /// packed_units.h. Its cells have the same numbers. nullptr: the elements are not packed.
  const std::shared_ptr<const CellGrid>& units() const noexcept { return units_; }

  /// Whether none of them stands in for its cell.
  bool replicas_differ() const noexcept { return replicas_differ_; }
  /// This grid with replicas that may differ.
  std::shared_ptr<const CellGrid> without_stand_ins() const;

 private:
  void count_in_units();

  std::shared_ptr<const CellPattern> pattern_;
  const TensorEntry* entry_;  ///< of a cell that has a file
  /// Of each cell, and of each replica if they are listed; empty: entry_ is that of all.
  std::vector<const TensorEntry*> entries_;
  bool replicas_differ_ = false;
  std::shared_ptr<const CellGrid> units_{};
};

using CellGridPtr = std::shared_ptr<const CellGrid>;

/// "3 boxes", of a grid that has boxes.
std::string boxes_text(const CellGrid& grid);

/// @throws Error if a tensor of this shape and type has more bytes than 64-bit numbers count.
void require_countable(const Shape& full, DType dtype);

/// The shape of an entry's elements; what is no array is one of bytes here.
Shape array_shape(const TensorEntry& entry);

/// A parameter that is taken as it stands in one file: a grid of one cell.
CellGridPtr single_cell_grid(const Holding& holding);
/// The same of one that several files hold with the same bytes; the first is the one to read.
CellGridPtr single_cell_grid(const Holders& holders);

}  // namespace reshardfs
