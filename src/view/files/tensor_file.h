// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reshardfs/virtual_file.h"

#include "base/process/retry_once.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// An object that is made when it is first asked for: one word until then. Any number of threads
/// may ask at once.
template <typename T>
class Lazy {
 public:
  Lazy() = default;
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
  ~Lazy() { delete object_.load(); }

  T& get() const {
    T* object = object_.load(std::memory_order_acquire);
    if (object != nullptr) return *object;
    auto made = std::make_unique<T>();
    // Where another thread was faster, its object counts.
    if (!object_.compare_exchange_strong(object, made.get())) return *object;
    return *made.release();
  }

 private:
  mutable std::atomic<T*> object_ = nullptr;
};

/// A file made of parameters of one destination rank. The constructor computes its size from
/// shapes. Objects are small, because there may be one for each parameter.
class TensorFile : public VirtualFile {
 public:
  std::uint64_t size() const override { return size_; }

  /// "source" (JSON: the ranges of source files that are read) and, if the source has a step,
  /// "step". "sha256", which reads the whole file once, exists but is not listed.
  std::vector<std::string> attribute_names() const override;
  std::optional<std::string> attribute(std::string_view name) const override;

 protected:
  TensorFile(std::shared_ptr<const TargetTable> target, Rank rank);

  /// The constructors of derived classes must call this.
  /// @throws Error kBadInput if this exceeds the largest size of a file.
  void set_size(std::uint64_t bytes);
  /// @throws Error kBadInput if the range leaves the file.
  void require_inside(std::uint64_t offset, std::uint64_t length) const;

  const TargetTable& target() const noexcept { return *target_; }
  Rank rank() const noexcept { return rank_; }

 private:
  /// What the file holds.
  virtual std::vector<const TargetParameter*> parameters() const = 0;

  struct Hash {
    RetryOnce once;  ///< guards text; a failed try is made again
    std::string text;
  };

  std::shared_ptr<const TargetTable> target_;
  Rank rank_;
  std::uint64_t size_ = 0;
  Lazy<Hash> sha256_;
};

}  // namespace reshardfs
