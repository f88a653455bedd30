// SPDX-License-Identifier: Apache-2.0
/// Keeps the number of open files below the process's limit.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/posix/descriptor.h"

namespace reshardfs {

using DescriptorPtr = std::shared_ptr<const Descriptor>;

/// The first files get places of their own and keep their descriptors, so that reading them takes
/// no lock. Later files share the remaining descriptors; the least recently used of these is closed
/// as soon as no read uses it. Every member function may be called from any number of threads at
/// once.
class DescriptorPool {
 public:
  /// @param places number of files that keep their descriptors.
  /// @param shared number of descriptors for all other files, at least 1.
  DescriptorPool(std::size_t places, std::size_t shared);

  /// The process-wide pool, as large as the limit of open files allows.
  static DescriptorPool& process();
  /// For process() only. @param before the parent process's pool, whose files are open here, too.
  static DescriptorPool* make(const DescriptorPool* before);
  /// @param limit files that the process may have open.
  void fit(std::size_t limit) noexcept;

  /// @return whether there was a place; give_back_place() returns it.
  bool take_place() noexcept;
  void give_back_place() noexcept;

  /// The descriptor of a file without a place. It stays open while it is held, so hold it for one
  /// read only.
  /// @param file identifies the file.
  /// @param open is called if the file is not open; its exceptions are passed on.
  DescriptorPtr get(const void* file, const std::function<DescriptorPtr()>& open);
  /// The file will not be asked for again.
  void forget(const void* file);
  /// Closes shared descriptors that no read uses.
  void close_idle();

  /// The number of shared descriptors that are open.
  std::size_t kept() const;

 private:
  using Kept = std::list<std::pair<const void*, DescriptorPtr>>;

  DescriptorPtr find(const void* file);

  std::atomic<std::size_t> places_;
  std::atomic<std::size_t> taken_{0};
  std::atomic<std::size_t> shared_;
  mutable std::mutex mutex_;  // guards both below
  Kept kept_;                 ///< most recently used first
  std::unordered_map<const void*, Kept::iterator> by_file_;
};

}  // namespace reshardfs
