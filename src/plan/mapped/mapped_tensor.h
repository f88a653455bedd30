// SPDX-License-Identifier: Apache-2.0
/// A tensor that a model map makes of full tensors of the source. Its elements are elements of
/// these or literals. See layout/normal_form.h.
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
  /// @param walk of the tensor's form; tensors that are made in the same way share it.
  /// @param sources in the order of their numbers in the form; all have the same element type.
  /// @param dtype of the sources, or of the tensor if it has only literals.
  MappedTensor(std::string name, DType dtype, std::shared_ptr<const FormWalk> walk,
               const std::vector<CellGridPtr>& sources);

  const TensorEntry& entry() const noexcept { return entry_; }
  const Shape& shape() const noexcept { return entry_.shape; }
  /// The source tensors, whole.
  const std::vector<ShownTensor>& sources() const noexcept { return sources_; }

  /// Calls `visit` for the sources of a region of the tensor. Cells are numbered over all sources.
  /// @param first_cell is added to their numbers.
  void for_each_source(const Region& region, std::size_t first_cell, VisitSource visit) const;

 private:
  TensorEntry entry_;
  std::shared_ptr<const FormWalk> walk_;
  std::vector<ShownTensor> sources_;
  std::vector<std::size_t> first_cells_;  ///< of each source
};

/// The grid of such a tensor, which has the cells of all sources, one source after the other.
CellGridPtr mapped_grid(std::shared_ptr<const MappedTensor> tensor);

}  // namespace reshardfs
