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

namespace reshardfs {

/// A file descriptor that is closed when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

using DescriptorPtr = std::shared_ptr<const Descriptor>;

/// As long as there is room a file has a place of its own and keeps its descriptor: reading it
/// takes no lock. The files that come later share what is left; of those the least recently used
/// is closed, once no read uses it any more.
/// Every member function may be called from any number of threads at once.
class DescriptorPool {
 public:
  /// @param places files that may keep their descriptor.
  /// @param shared descriptors for all others, at least 1.
  DescriptorPool(std::size_t places, std::size_t shared);

  /// Of the process: as large as its limit of open files allows.
  static DescriptorPool& process();
  /// For process() alone. @param before of a parent, whose files are open here, too.
  static DescriptorPool* make(const DescriptorPool* before);
  /// @param limit files that the process may have open.
  void fit(std::size_t limit) noexcept;

  /// @return whether there was a place; give_back_place() returns it.
  bool take_place() noexcept;
  void give_back_place() noexcept;

  /// The descriptor of a file without a place. It stays open for as long as it is held, so hold it
  /// for one read only.
  /// @param file identifies the file.
  /// @param open called if it is not open; what it throws is passed on.
  DescriptorPtr get(const void* file, const std::function<DescriptorPtr()>& open);
  /// The file will not be asked for again.
  void forget(const void* file);
  /// Closes those that no read uses.
  void close_idle();

  /// Shared descriptors that are kept.
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
