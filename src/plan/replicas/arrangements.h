// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "reshardfs/layout.h"

#include "checkpoint/catalogue.h"
#include "plan/source/cell_grid.h"

namespace reshardfs {

/// A pattern in which the lowest rank's file of each cell serves it, and what it was made for.
struct Arrangement {
  SlicePlacement placement;
  Layout layout;  ///< a copy of the placement's
  std::shared_ptr<const CellPattern> pattern;
  std::vector<const TensorEntry*> entries;  ///< of each cell
};

using ArrangementPtr = std::shared_ptr<const Arrangement>;

/// Arrangements that were made before: nearly all parameters are laid out like one of a few. Every
/// member function may be called from any number of threads.
class Arrangements {
 public:
  /// @throws Error if the holders' shapes do not fit each other or the layout.
  ArrangementPtr find_or_make(const SlicePlacement& placement);

 private:
  std::mutex mutex_;
  std::vector<ArrangementPtr> known_;
};

}  // namespace reshardfs
