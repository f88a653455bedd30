// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "reshardfs/virtual_file.h"

namespace reshardfs {

/// What the openings of files with changing contents see, each its own, by numbers that the kernel
/// keeps for them. Every member function may be called from any number of threads at once.
class OpenSnapshots {
 public:
  /// Stands for a file without snapshots.
  static constexpr std::uint64_t kNone = 0;

  /// @return its number, or kNone if there is nothing to keep. @throws std::bad_alloc
  std::uint64_t add(std::shared_ptr<const VirtualFile> snapshot);
  /// nullptr if there is none of that number.
  std::shared_ptr<const VirtualFile> find(std::uint64_t number) const noexcept;
  void remove(std::uint64_t number) noexcept;

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_ = kNone;                                                       ///< guarded
  std::unordered_map<std::uint64_t, std::shared_ptr<const VirtualFile>> by_number_;  ///< guarded
};

}  // namespace reshardfs
