// SPDX-License-Identifier: Apache-2.0
/// How an index keeps shapes, extents and boxes of its entries in little memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reshardfs/shape.h"

#include "base/byte_range.h"
#include "base/shared_value.h"

namespace reshardfs {

/// The shape of an entry. A model has a million tensors, but few shapes: they share them (see
/// ShapeKinds), and copies of this do, too. It reads like a Shape.
class KeptShape {
 public:
  // The standard library's algorithms expect these names.
  // NOLINTBEGIN(readability-identifier-naming)
  using value_type = Shape::value_type;
  using const_iterator = Shape::const_iterator;
  using iterator = const_iterator;
  // NOLINTEND(readability-identifier-naming)

  KeptShape() = default;
  KeptShape(std::initializer_list<std::int64_t> sizes) : KeptShape(Shape(sizes)) {}
  explicit KeptShape(Shape shape) {
    if (!shape.empty()) shape_ = SharedValue(std::move(shape));
  }
  KeptShape& operator=(Shape shape) { return *this = KeptShape(std::move(shape)); }
  KeptShape& operator=(std::initializer_list<std::int64_t> sizes) {
    return *this = KeptShape(sizes);
  }

  const Shape& get() const noexcept {
    static const Shape scalar;
    const Shape* const shape = shape_.get();
    return shape == nullptr ? scalar : *shape;
  }
  operator const Shape&() const noexcept { return get(); }  // NOLINT: it is one

  std::size_t size() const noexcept { return get().size(); }
  bool empty() const noexcept { return get().empty(); }
  std::int64_t operator[](std::size_t dimension) const { return get()[dimension]; }
  std::int64_t at(std::size_t dimension) const { return get().at(dimension); }
  std::int64_t front() const { return get().front(); }
  std::int64_t back() const { return get().back(); }
  const_iterator begin() const noexcept { return get().begin(); }
  const_iterator end() const noexcept { return get().end(); }

  bool operator==(const KeptShape& other) const noexcept {
    return shape_.get() == other.shape_.get() || get() == other.get();
  }
  bool operator==(const Shape& other) const noexcept { return get() == other; }

 private:
  SharedValue<Shape> shape_;  ///< of none: a scalar's
};

/// The shapes that were kept so far. For one thread.
class ShapeKinds {
 public:
  /// A shape that is shared with all equal ones that were kept. Beyond some thousand kinds, each
  /// further shape is one of its own.
  KeptShape keep(const Shape& shape);
  KeptShape keep(KeptShape shape);

 private:
  KeptShape* find(const Shape& shape);
  void add(const Shape& shape, const KeptShape& kept);

  std::unordered_multimap<std::size_t, KeptShape> kinds_;  ///< by hash
  KeptShape last_;
};

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
  FileExtents(const FileExtents& other) : one_(other.one_) {
    if (const auto* const all = other.many()) keep(*all);
  }
  FileExtents(FileExtents&& other) noexcept : one_(std::exchange(other.one_, kNone)) {}
  FileExtents& operator=(FileExtents other) noexcept {
    std::swap(one_, other.one_);
    return *this;
  }
  ~FileExtents() { delete many(); }

  std::size_t size() const noexcept {
    if (const auto* const all = many()) return all->size();
    return one_ == kNone ? 0 : 1;
  }
  bool empty() const noexcept { return size() == 0; }
  iterator begin() noexcept {
    auto* const all = many();
    return all == nullptr ? &one_ : all->data();
  }
  iterator end() noexcept { return begin() + size(); }
  const_iterator begin() const noexcept {
    const auto* const all = many();
    return all == nullptr ? &one_ : all->data();
  }
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
    if (many() == nullptr) keep({begin(), end()});
    many()->push_back(range);
  }
  /// @throws Error as ByteRange().
  void emplace_back(std::uint64_t offset, std::uint64_t length) {
    push_back(ByteRange(offset, length));
  }
  void clear() noexcept { *this = FileExtents(); }

  bool operator==(const FileExtents& other) const noexcept {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  /// Stands for no extent.
  static constexpr ByteRange kNone{};

  using List = std::vector<ByteRange>;
  /// Where no range begins that ends elsewhere: the end is then the address of a list of them all.
  static constexpr std::uint64_t kAtList = UINT64_MAX;

  List* many() const noexcept {
    if (one_.offset() != kAtList || one_.end() == kAtList) return nullptr;
    return reinterpret_cast<List*>(one_.end());  // NOLINT: keep() wrote it
  }
  void keep(List all) {
    const auto* const list = new List(std::move(all));
    one_ = std::bit_cast<ByteRange>(
        std::array<std::uint64_t, 2>{kAtList, reinterpret_cast<std::uint64_t>(list)});
  }

  ByteRange one_ = kNone;
};

/// Where the entries of an index that are boxes begin in their full tensors. It stands beside the
/// entries, as the files of most formats have no boxes.
class BoxOffsets {
 public:
  /// @param entry the entry's number, higher than that of any box before.
  /// @param offsets in elements, one for each dimension.
  void add(std::size_t entry, const Shape& offsets);

  bool empty() const noexcept { return boxes_.empty(); }
  std::size_t size() const noexcept { return boxes_.size(); }
  /// The entry of a box, 0 <= number < size().
  std::size_t entry(std::size_t number) const { return boxes_.at(number).entry; }
  /// Nothing if the entry is no box. O(log n).
  std::optional<std::span<const std::int64_t>> of(std::size_t entry) const noexcept;

 private:
  struct Place {
    std::size_t entry = 0;
    std::size_t first = 0;  ///< in offsets_
  };
  std::vector<Place> boxes_;
  std::vector<std::int64_t> offsets_;  ///< those of all boxes, one after the other
};

}  // namespace reshardfs
