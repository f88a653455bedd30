// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace reshardfs {

/// A value that copies of this share. It takes one pointer, where a std::shared_ptr takes two: a
/// model has a million of them.
template <typename T>
class SharedValue {
 public:
  /// Of none.
  SharedValue() noexcept = default;
  explicit SharedValue(T value) : kept_(new Kept{std::move(value)}) {}
  SharedValue(const SharedValue& other) noexcept : kept_(other.kept_) {
    if (kept_ != nullptr) kept_->uses.fetch_add(1, std::memory_order_relaxed);
  }
  SharedValue(SharedValue&& other) noexcept : kept_(std::exchange(other.kept_, nullptr)) {}
  SharedValue& operator=(SharedValue other) noexcept {
    std::swap(kept_, other.kept_);
    return *this;
  }
  ~SharedValue() {
    if (kept_ != nullptr && kept_->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) delete kept_;
  }

  /// nullptr: it has none.
  const T* get() const noexcept { return kept_ == nullptr ? nullptr : &kept_->value; }

 private:
  struct Kept {
    const T value;
    std::atomic<std::size_t> uses{1};
  };

  Kept* kept_ = nullptr;
};

}  // namespace reshardfs
