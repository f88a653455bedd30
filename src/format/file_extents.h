// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "base/byte_range.h"

namespace reshardfs {

/// A list of ranges of a file. Of a million tensors nearly every one has a single extent, which
/// takes no memory of its own.
class FileExtents {
 public:
  // The standard library's algorithms expect these names.
  // NOLINTBEGIN(readability-identifier-naming)
  using value_type = ByteRange;
  using iterator = ByteRange*;
  using const_iterator = const ByteRange*;
  // NOLINTEND(readability-identifier-naming)

  FileExtents() = default;
  FileExtents(std::initializer_list<ByteRange> ranges) {
    for (const ByteRange& range : ranges) push_back(range);
  }
  FileExtents(const FileExtents& other)
      : one_(other.one_),
        many_(other.many_ ? std::make_unique<std::vector<ByteRange>>(*other.many_) : nullptr) {}
  FileExtents(FileExtents&& other) noexcept
      : one_(std::exchange(other.one_, kNone)), many_(std::move(other.many_)) {}
  FileExtents& operator=(FileExtents other) noexcept {
    one_ = other.one_;
    many_ = std::move(other.many_);
    return *this;
  }
  ~FileExtents() = default;

  std::size_t size() const noexcept { return many_ ? many_->size() : one_ == kNone ? 0 : 1; }
  bool empty() const noexcept { return size() == 0; }
  iterator begin() noexcept { return many_ ? many_->data() : &one_; }
  iterator end() noexcept { return begin() + size(); }
  const_iterator begin() const noexcept { return many_ ? many_->data() : &one_; }
  const_iterator end() const noexcept { return begin() + size(); }
  ByteRange& operator[](std::size_t i) noexcept { return begin()[i]; }
  const ByteRange& operator[](std::size_t i) const noexcept { return begin()[i]; }
  ByteRange& front() noexcept { return *begin(); }
  const ByteRange& front() const noexcept { return *begin(); }
  const ByteRange& back() const noexcept { return *(end() - 1); }

  void push_back(const ByteRange& range) {
    if (empty() && range != kNone) {
      one_ = range;
      return;
    }
    if (!many_) many_ = std::make_unique<std::vector<ByteRange>>(begin(), end());
    many_->push_back(range);
  }
  /// @throws Error as ByteRange().
  void emplace_back(std::uint64_t offset, std::uint64_t length) {
    push_back(ByteRange(offset, length));
  }
  void clear() noexcept {
    one_ = kNone;
    many_.reset();
  }

  bool operator==(const FileExtents& other) const noexcept {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  /// Stands for no extent.
  static constexpr ByteRange kNone{};

  ByteRange one_ = kNone;
  std::unique_ptr<std::vector<ByteRange>> many_;  ///< then all of them; one_ does not matter
};

}  // namespace reshardfs
