// SPDX-License-Identifier: Apache-2.0
/// A tensor that a model map makes of full tensors of the source: its elements are theirs, or
/// literals. See layout/normal_form.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "format/file_index.h"
#include "layout/form_walk.h"
#include "plan/source/cell_grid.h"
#include "plan/target/shown_tensor.h"

namespace reshardfs {

class MappedTensor {
 public:
  /// @param walk of the tensor's form; tensors that are made alike share it.
  /// @param sources by their numbers in the form; all of one element type.
  /// @param dtype of the sources, or of a tensor of literals alone.
  MappedTensor(std::string name, DType dtype, std::shared_ptr<const FormWalk> walk,
               const std::vector<CellGridPtr>& sources);

  const TensorEntry& entry() const noexcept { return entry_; }
  const Shape& shape() const noexcept { return entry_.shape; }
  /// The source tensors, whole.
  const std::vector<ShownTensor>& sources() const noexcept { return sources_; }

  /// Calls `visit` for what a region of the tensor is made of. Cells are numbered over all sources.
  /// @param first_cell is added to their numbers.
  void for_each_source(const Region& region, std::size_t first_cell, VisitSource visit) const;

 private:
  TensorEntry entry_;
  std::shared_ptr<const FormWalk> walk_;
  std::vector<ShownTensor> sources_;
  std::vector<std::size_t> first_cells_;  ///< of each source
};

/// The grid of such a tensor: its cells are those of the sources, one source after the other.
CellGridPtr mapped_grid(std::shared_ptr<const MappedTensor> tensor);

}  // namespace reshardfs
