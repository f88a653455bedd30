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

/// A pattern in which the lowest rank's file serves each cell, and the placement from which it was
/// made.
struct Arrangement {
  SlicePlacement placement;
  Layout layout;  ///< a copy of the placement's
  std::shared_ptr<const CellPattern> pattern;
  std::vector<const TensorEntry*> entries;  ///< one for each cell
};

using ArrangementPtr = std::shared_ptr<const Arrangement>;

/// A cache of arrangements: most parameters have one of a few layouts. Every member function may be
/// called from any number of threads.
class Arrangements {
 public:
  /// @throws Error if the holders' shapes do not fit each other or the layout.
  ArrangementPtr find_or_make(const SlicePlacement& placement);

 private:
  std::mutex mutex_;
  std::vector<ArrangementPtr> known_;
};

}  // namespace reshardfs
