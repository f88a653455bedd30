// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace reshardfs {

/// A vector of at most `kMost` values, which are in the object itself. Only those that are there
/// are copied.
template <typename T, std::size_t kMost>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  InlineVector() noexcept : size_(0) {}  // NOLINT: values are written before they are read
  explicit InlineVector(std::size_t size) noexcept : size_(0) { resize(size); }  // NOLINT
  InlineVector(const InlineVector& other) noexcept : size_(other.size_) {        // NOLINT
    std::copy(other.begin(), other.end(), begin());
  }
  InlineVector& operator=(const InlineVector& other) noexcept {
    size_ = other.size_;
    if (this != &other) std::copy(other.begin(), other.end(), begin());
    return *this;
  }
  ~InlineVector() = default;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) noexcept { return storage_.values[i]; }
  const T& operator[](std::size_t i) const noexcept { return storage_.values[i]; }
  T* begin() noexcept { return static_cast<T*>(storage_.values); }
  T* end() noexcept { return begin() + size_; }
  const T* begin() const noexcept { return static_cast<const T*>(storage_.values); }
  const T* end() const noexcept { return begin() + size_; }

  /// @pre size() is less than kMost, here and below.
  void push_back(const T& value) noexcept { storage_.values[size_++] = value; }
  void insert(std::size_t at, const T& value) noexcept {
    std::copy_backward(begin() + at, end(), end() + 1);
    storage_.values[at] = value;
    ++size_;
  }
  void erase(std::size_t at) noexcept {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  /// New values are T().
  void resize(std::size_t size) noexcept {
    if (size > size_) std::fill(end(), begin() + size, T());
    size_ = size;
  }

 private:
  union Storage {
    Storage() noexcept {}  // NOLINT: see above
    T values[kMost];       // NOLINT(modernize-avoid-c-arrays): never begun by itself
  };

  std::size_t size_;
  Storage storage_;
};

}  // namespace reshardfs
