// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "format/safetensors/safetensors_writer.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// What the tensors of the last file take. Several files mostly hold the whole model one after the
/// other, and differ in what does not depend on the tensors. Any number of threads may use it.
class SafetensorsSizes {
 public:
  /// @param table outlives the views. @param measure what makes it for other tensors.
  template <typename Measure>
  safetensors::TensorBytes of(const TargetTable& table, Rank rank,
                              const std::vector<const TargetParameter*>& parameters,
                              Measure&& measure) {
    {
      const std::lock_guard lock(mutex_);
      if (table_ == &table && rank_ == rank && parameters_ == parameters) return bytes_;
    }
    const safetensors::TensorBytes bytes = measure();
    std::vector<const TargetParameter*> copy = parameters;
    const std::lock_guard lock(mutex_);
    table_ = &table;
    rank_ = rank;
    parameters_.swap(copy);
    bytes_ = bytes;
    return bytes;
  }

  /// Once there are all files.
  void forget() {
    const std::lock_guard lock(mutex_);
    table_ = nullptr;
    std::vector<const TargetParameter*>().swap(parameters_);
  }

 private:
  std::mutex mutex_;
  const TargetTable* table_ = nullptr;
  Rank rank_{};
  std::vector<const TargetParameter*> parameters_;
  safetensors::TensorBytes bytes_{};
};

}  // namespace reshardfs
