// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "checkpoint/catalogue.h"
#include "plan/source/cell_grid.h"

namespace reshardfs {

/// Makes the grids of parameters that a catalogue lists as boxes. Parameters share equal positions
/// of boxes and, if the same files serve them, the whole pattern.
class BoxGrids {
 public:
  /// @param like an entry of the parameter: its name and type.
  /// @throws Error kBadInput if a box leaves the tensor or overlaps another one, or an entry does
  ///         not have the shape of its box; names the boxes and the file.
  CellGridPtr make(const BoxPlacement& placement, const TensorEntry& like);

 private:
  std::shared_ptr<const BoxSet> shared(BoxSet boxes);
  std::shared_ptr<const CellPattern> shared(CellPattern pattern);

  std::unordered_multimap<std::size_t, std::shared_ptr<const BoxSet>> sets_;
  std::unordered_multimap<std::size_t, std::shared_ptr<const CellPattern>> patterns_;
};

}  // namespace reshardfs
