// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
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

/// Where the slices of a parameter lie in the full tensor, and which file serves each. All
/// parameters with the same layout, shape and stage share one pattern.
///
/// The cells are the product of the partitions' parts, or the boxes of a set that is not a product.
struct CellPattern {
  Shape full_shape;
  std::vector<AxisPartition> partitions;  ///< one for each dimension of full_shape
  /// The file of each cell, row-major over the parts of the partitions, or in the order of the
  /// boxes. nullptr: no source file has the cell.
  std::vector<const RankFile*> files;
  /// Further files with the same slice, by the number of their cell, ascending.
  std::vector<std::pair<std::size_t, const RankFile*>> replicas;
  /// The boxes; nullptr: the cells are a product. With boxes, the partitions have one part each. If
  /// the boxes leave elements out, one more cell, which no file has, stands for these. A tensor
  /// without elements has one cell and no box.
  std::shared_ptr<const BoxSet> boxes{};
  /// The model map's recipe for the tensor; nullptr: there is none. With it, the cells are those of
  /// the source tensors, and the partitions have one part each.
  std::shared_ptr<const MappedTensor> mapped{};

  /// A pattern with partitions of one part each, and no cells yet.
  static CellPattern uncut(Shape full_shape);

  bool complete() const noexcept;
};

/// The source shards of one parameter.
///
/// Invariant: a cell's entry has the cell's shape (the product of its part lengths) and the
/// grid's element type, so that offsets computed from the partitions are right in the file.
///
/// All constructors throw Error kUnsupported if the pattern cuts packed elements inside a byte.
class CellGrid {
 public:
  /// @param entry the parameter in the index that all files of the pattern share.
  CellGrid(std::shared_ptr<const CellPattern> pattern, const TensorEntry& entry);
  /// @param entries one for each cell, from the cell's file; nullptr if the cell has no file. At
  ///        least one is not nullptr.
  CellGrid(std::shared_ptr<const CellPattern> pattern, std::vector<const TensorEntry*> entries);
  /// @param entries one for each cell, nullptr if it has no file, followed by one for each replica.
  ///        So one file can have several cells.
  /// @param like an entry of the parameter.
  CellGrid(std::shared_ptr<const CellPattern> pattern, std::vector<const TensorEntry*> entries,
           const TensorEntry& like);
  CellGrid(const CellGrid& other);
  CellGrid(CellGrid&&) noexcept = default;
  CellGrid& operator=(const CellGrid&) = delete;
  CellGrid& operator=(CellGrid&&) = delete;
  ~CellGrid() = default;

  /// Shared by many grids.
  const CellPattern& pattern() const noexcept { return *pattern_; }
  const std::string& name() const noexcept { return entry_->name; }
  DType dtype() const noexcept { return entry_->dtype; }
  const Shape& full_shape() const noexcept { return pattern_->full_shape; }
  const std::vector<AxisPartition>& partitions() const noexcept { return pattern_->partitions; }
  /// The boxes of the cells; nullptr: the cells are the product of partitions().
  const BoxSet* boxes() const noexcept { return pattern_->boxes.get(); }
  /// The model map's recipe, which makes the tensor of full tensors; nullptr: there is none.
  const MappedTensor* mapped() const noexcept { return pattern_->mapped.get(); }
  std::size_t cell_count() const noexcept { return pattern_->files.size(); }
  /// An empty holding if no source file has the cell.
  Holding cell(std::size_t number) const noexcept {
    const RankFile* file = pattern_->files[number];
    if (file == nullptr) return {};
    return {file, rest_ && !rest_->entries.empty() ? rest_->entries[number] : entry_};
  }
  /// The cell in another file that `usable` accepts; an empty holding if there is none.
  Holding replica(std::size_t number,
                  const std::function<bool(const RankFile& file)>& usable) const;
  /// The replica() that may be read in place of cell(); an empty holding if replicas may differ.
  Holding stand_in(std::size_t number,
                   const std::function<bool(const RankFile& file)>& usable) const {
    return replicas_differ() ? Holding() : replica(number, usable);
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

  /// The same grid counted in units of packed elements: see packed_units.h. Its cells have the same
  /// numbers. nullptr if the elements are not packed.
  std::shared_ptr<const CellGrid> units() const noexcept { return rest_ ? rest_->units : nullptr; }

  /// Whether replicas may differ, so that none may stand in for its cell.
  bool replicas_differ() const noexcept { return rest_ && rest_->replicas_differ; }
  /// This grid with replicas that may differ.
  std::shared_ptr<const CellGrid> without_stand_ins() const;

 private:
  /// What few grids have.
  struct Rest {
    /// The entries of all cells, and of the replicas if they are listed; empty: all have entry_.
    std::vector<const TensorEntry*> entries;
    bool replicas_differ = false;
    std::shared_ptr<const CellGrid> units;
  };

  void count_in_units();
  Rest& rest();
  std::span<const TensorEntry* const> entries() const noexcept {
    if (rest_) return rest_->entries;
    return {};
  }

  std::shared_ptr<const CellPattern> pattern_;
  const TensorEntry* entry_;  ///< the entry in a cell that has a file
  std::unique_ptr<Rest> rest_;
};

using CellGridPtr = std::shared_ptr<const CellGrid>;

/// "3 boxes", for a grid with boxes.
std::string boxes_text(const CellGrid& grid);

/// @throws Error if the number of bytes of a tensor of this shape and type exceeds 64 bits.
void require_countable(const Shape& full, DType dtype);

/// The shape of an entry's elements. An entry that is not an array counts as an array of bytes.
Shape array_shape(const TensorEntry& entry);

/// A grid with one cell, for a parameter that is used as it is in one file.
CellGridPtr single_cell_grid(const Holding& holding);
/// The same for a parameter that several files hold with the same bytes; the first one is read.
CellGridPtr single_cell_grid(const Holders& holders);

}  // namespace reshardfs
