// SPDX-License-Identifier: Apache-2.0
/// Where each element of a tensor comes from, without a list of elements.
///
/// The dimensions of a tensor are factored into axes, whose lengths multiply to those of the
/// dimensions and whose C order is that of the tensor. Disjoint boxes cover the space of these
/// axes. Within a box, the place of an element in its source is an affine function of the indices.
///
/// Invariants: no axis is shorter than 2; a box is empty along no axis; an axis along which a box
/// has length 1 has stride 0 there; a tensor without elements has no axes and no boxes. Numbers of
/// elements fit into 63 bits, so that no sum of indices and strides overflows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

namespace reshardfs {

/// What a box has along one axis.
struct TermAxis {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  /// Elements of the source from one index to the next; 0 for repeats and literals.
  std::int64_t stride = 0;

  std::int64_t length() const noexcept { return end - begin; }
  bool operator==(const TermAxis&) const = default;
};

/// Element x of a box is source element base + sum((x_k - begin_k) * stride_k).
struct FormTerm {
  /// `source` of boxes that are one value: the number `base`, or the double that has its bits.
  static constexpr std::int64_t kInteger = -1;
  static constexpr std::int64_t kReal = -2;

  /// An index in the list of sources from which the form was made.
  std::int64_t source = 0;
  std::int64_t base = 0;
  std::vector<TermAxis> axes{};

  bool is_literal() const noexcept { return source < 0; }
  std::int64_t elements() const noexcept;
  bool operator==(const FormTerm&) const = default;
};

/// One value for many elements.
struct Literal {
  std::int64_t source = FormTerm::kInteger;  ///< as FormTerm::source
  std::int64_t base = 0;

  static Literal integer(std::int64_t value) { return {FormTerm::kInteger, value}; }
  static Literal real(double value);
  /// Of a literal box.
  static Literal of(const FormTerm& box) { return {box.source, box.base}; }
  /// The bytes of one element, in the order of the machine (little endian).
  /// @throws Error kBadInput if the type cannot hold the value, or is no array of numbers.
  std::vector<std::byte> bytes(DType dtype) const;
};

struct NormalForm {
  static constexpr std::size_t kMaxDimensions = 8;
  static constexpr std::size_t kMaxAxes = 16;
  static constexpr std::size_t kMaxBoxes = 65'536;

  Shape shape{};
  /// The lengths of the axes, by dimension.
  std::vector<std::vector<std::int64_t>> factors{};
  std::vector<FormTerm> boxes{};

  /// All of source `number`.
  /// @throws Error kUnsupported for more than kMaxDimensions, kBadInput for too many elements.
  static NormalForm of_source(const Shape& shape, std::int64_t number);
  static NormalForm of_literal(const Shape& shape, const Literal& value);
  /// Of a shape that has no elements.
  static NormalForm of_nothing(Shape shape);

  /// The lengths of all axes, outermost first.
  std::vector<std::int64_t> axes() const;
  std::size_t axis_count() const noexcept;
  /// The number of the first axis of a dimension.
  std::size_t first_axis(std::size_t dimension) const noexcept;
  std::int64_t elements() const { return element_count(shape); }

  bool operator==(const NormalForm&) const = default;
};

/// As the operations on axes need it: the product, which is known to fit.
std::int64_t product(const std::vector<std::int64_t>& lengths) noexcept;

/// Appends a box.
/// @throws Error kUnsupported if there are NormalForm::kMaxBoxes already.
void add_box(std::vector<FormTerm>& boxes, FormTerm box);

/// Splits factor `at` of a dimension into (n / inner, inner). Boxes that do not begin or end at a
/// multiple of `inner` become up to three.
/// @pre inner divides the factor
void split_axis(NormalForm& form, std::size_t dimension, std::size_t at, std::int64_t inner);

/// Merges factors `at` and `at` + 1 of a dimension. Boxes that are not contiguous in the two become
/// one for each index of the outer one.
void merge_axes(NormalForm& form, std::size_t dimension, std::size_t at);

/// Merges axes of a dimension wherever no box falls apart.
void merge_contiguous(NormalForm& form);

/// Makes the factors of a dimension fall into consecutive groups with these products, by splitting
/// and merging.
/// @pre the product of `lengths` is that of the dimension, which has elements
/// @return how many factors each group has
std::vector<std::size_t> group_factors(NormalForm& form, std::size_t dimension,
                                       const std::vector<std::int64_t>& lengths);

}  // namespace reshardfs
