// SPDX-License-Identifier: Apache-2.0
/// A tensor that a model map makes of full tensors of the source: its elements are theirs, or
/// literals. See modelmap/normal_form.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "format/file_index.h"
#include "modelmap/form_runs.h"
#include "plan/shard_grid.h"
#include "plan/tensor_view.h"

namespace reshardfs {

/// Elements of one index of each dimension, in C order.
std::vector<std::int64_t> element_strides(const Shape& shape);

class MappedTensor {
 public:
  /// @param tree of the tensor's form; tensors that are made alike share it.
  /// @param sources by their numbers in the form; all of one element type.
  /// @param dtype of the sources, or of a tensor of literals alone.
  MappedTensor(std::string name, DType dtype, std::shared_ptr<const modelmap::RunTree> tree,
               std::vector<ShardGridPtr> sources);

  const TensorEntry& entry() const noexcept { return entry_; }
  const Shape& shape() const noexcept { return entry_.shape; }
  const std::vector<ShardGridPtr>& sources() const noexcept { return sources_; }
  const modelmap::NormalForm& form() const noexcept { return tree_->form(); }
  /// The number of a source's first cell among those of all.
  std::size_t first_cell(std::size_t source) const { return first_cells_[source]; }

  /// Calls `visit` for what elements [begin, end) are made of, which covers them once. Cells are
  /// numbered over all sources, offsets in the destination count from element `begin` on; of
  /// literals the run has no holding, but StridedRun::literal.
  void for_each_run(std::int64_t begin, std::int64_t end,
                    const std::function<void(const StridedRun&)>& visit) const;

 private:
  class Splitter;

  TensorEntry entry_;
  std::shared_ptr<const modelmap::RunTree> tree_;
  std::vector<ShardGridPtr> sources_;
  std::vector<std::size_t> first_cells_;  ///< of each source
  std::vector<TensorView> wholes_;        ///< of each source
};

/// The grid of such a tensor: its cells are those of the sources, one source after the other.
ShardGridPtr mapped_grid(std::shared_ptr<const MappedTensor> tensor);

}  // namespace reshardfs
