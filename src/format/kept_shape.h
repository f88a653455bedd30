// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "reshardfs/shape.h"

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
    if (!shape.empty()) shape_ = std::make_shared<const Shape>(std::move(shape));
  }
  /// @param shared nullptr: a scalar's.
  explicit KeptShape(std::shared_ptr<const Shape> shared) : shape_(std::move(shared)) {}
  KeptShape& operator=(Shape shape) { return *this = KeptShape(std::move(shape)); }
  KeptShape& operator=(std::initializer_list<std::int64_t> sizes) {
    return *this = KeptShape(sizes);
  }

  const Shape& get() const noexcept {
    static const Shape scalar;
    return shape_ ? *shape_ : scalar;
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
    return shape_ == other.shape_ || get() == other.get();
  }
  bool operator==(const Shape& other) const noexcept { return get() == other; }

 private:
  std::shared_ptr<const Shape> shape_;  ///< nullptr: a scalar's
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

}  // namespace reshardfs
