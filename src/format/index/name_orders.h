// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "format/file_index.h"

namespace reshardfs {

/// Finds among the indexes read so far one with the same names in the same order: the files of a
/// pipeline stage have that, and then the order by name is worked out and kept once for all.
/// Every member function may be called from any number of threads at once.
class NameOrders {
 public:
  void add(std::shared_ptr<const FileIndex> index);

  /// An index that was added and whose names are those of `entries`, or nullptr.
  std::shared_ptr<const FileIndex> find(const std::vector<TensorEntry>& entries) const;

 private:
  mutable std::mutex mutex_;  // guards indexes_
  std::vector<std::shared_ptr<const FileIndex>> indexes_;
};

}  // namespace reshardfs
