// SPDX-License-Identifier: Apache-2.0
#include "layout/normal_form.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "base/cast.h"

namespace reshardfs {
namespace {

/// Indices of one axis, as those of (outer, inner).
struct AxisPair {
  TermAxis outer;
  TermAxis inner;
};

TermAxis canonical(std::int64_t begin, std::int64_t end, std::int64_t stride) {
  return {begin, end, end - begin == 1 ? 0 : stride};
}

/// @pre [begin, end) is inside one block of `inner` indices, or whole blocks
AxisPair split_range(std::int64_t begin, std::int64_t end, std::int64_t stride,
                     std::int64_t inner) {
  const std::int64_t block = begin / inner;
  const std::int64_t within = begin - block * inner;
  if (end - begin <= inner - within) {
    return {{block, block + 1, 0}, canonical(within, within + end - begin, stride)};
  }
  return {canonical(block, end / inner, stride * inner), canonical(0, inner, stride)};
}

void split_box(const FormTerm& box, std::size_t axis, std::int64_t inner,
               std::vector<FormTerm>& out) {
  const TermAxis whole = box.axes[axis];
  const auto emit = [&](std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    FormTerm piece = box;
    piece.base += (begin - whole.begin) * whole.stride;
    const AxisPair pair = split_range(begin, end, whole.stride, inner);
    piece.axes[axis] = pair.outer;
    piece.axes.insert(piece.axes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, pair.inner);
    add_box(out, std::move(piece));
  };
  if (whole.begin / inner == (whole.end - 1) / inner) return emit(whole.begin, whole.end);
  const std::int64_t tail = whole.end - whole.end % inner;
  const std::int64_t head = (whole.begin / inner + (whole.begin % inner == 0 ? 0 : 1)) * inner;
  emit(whole.begin, head);
  emit(head, tail);
  emit(tail, whole.end);
}

bool is_mergeable(const FormTerm& box, std::size_t axis, std::int64_t inner_length) {
  const TermAxis& outer = box.axes[axis];
  const TermAxis& inner = box.axes[axis + 1];
  if (outer.length() == 1) return true;
  return inner.length() == inner_length && outer.stride == inner.stride * inner_length;
}

/// @param index a part of the outer axis that merges
void merge_into(const FormTerm& box, std::size_t axis, std::int64_t inner_length,
                const TermAxis& index, std::vector<FormTerm>& out) {
  const TermAxis& outer = box.axes[axis];
  const TermAxis& inner = box.axes[axis + 1];
  FormTerm merged = box;
  merged.base += (index.begin - outer.begin) * outer.stride;
  merged.axes[axis] = canonical(index.begin * inner_length + inner.begin,
                                (index.end - 1) * inner_length + inner.end, inner.stride);
  merged.axes.erase(merged.axes.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  add_box(out, std::move(merged));
}

bool all_mergeable(const NormalForm& form, std::size_t axis, std::int64_t inner_length) {
  return std::all_of(form.boxes.begin(), form.boxes.end(),
                     [&](const FormTerm& box) { return is_mergeable(box, axis, inner_length); });
}

NormalForm of_shape(const Shape& shape) {
  if (shape.size() > NormalForm::kMaxDimensions) {
    throw Error(ErrorKind::kUnsupported, to_string(shape) + " has more than " +
                                             std::to_string(NormalForm::kMaxDimensions) +
                                             " dimensions");
  }
  NormalForm form = NormalForm::of_nothing(shape);
  if (element_count(shape) == 0) return form;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) form.factors[d] = {shape[d]};
  }
  form.boxes.emplace_back();
  for (const std::int64_t length : form.axes()) form.boxes[0].axes.push_back({0, length, 0});
  return form;
}

template <typename T>
std::vector<std::byte> bytes_of(T value) {
  std::vector<std::byte> out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

template <typename T>
std::vector<std::byte> integer_bytes(const Literal& literal, bool unsigned_64 = false) {
  const bool fits = literal.source == FormTerm::kInteger &&
                    (unsigned_64 ? literal.base >= 0
                                 : literal.base >= std::int64_t{std::numeric_limits<T>::min()} &&
                                       literal.base <= std::int64_t{std::numeric_limits<T>::max()});
  if (!fits) throw Error(ErrorKind::kBadInput, "the value to pad with does not fit the type");
  return bytes_of(static_cast<T>(literal.base));
}

double real_value(const Literal& literal) {
  if (literal.source == FormTerm::kInteger) return static_cast<double>(literal.base);
  double value = 0;
  std::memcpy(&value, &literal.base, sizeof value);
  return value;
}

std::vector<std::byte> float_bytes(const Literal& literal, DType dtype) {
  const double value = real_value(literal);
  std::vector<std::byte> out(static_cast<std::size_t>(element_size(dtype)));
  cast_elements(DType::kFloat64, bytes_of(value).data(), dtype, out.data(), 1);
  return out;
}

}  // namespace

std::int64_t product(const std::vector<std::int64_t>& lengths) noexcept {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t FormTerm::elements() const noexcept {
  std::int64_t count = 1;
  for (const TermAxis& axis : axes) count *= axis.length();
  return count;
}

Literal Literal::real(double value) {
  Literal literal{FormTerm::kReal, 0};
  std::memcpy(&literal.base, &value, sizeof value);
  return literal;
}

std::vector<std::byte> Literal::bytes(DType dtype) const {
  switch (dtype) {
    case DType::kBool:
      if (source != FormTerm::kInteger || base < 0 || base > 1) break;
      return bytes_of(static_cast<std::uint8_t>(base));
    case DType::kInt4:
    case DType::kInt8:
      return integer_bytes<std::int8_t>(*this);
    case DType::kUInt8:
      return integer_bytes<std::uint8_t>(*this);
    case DType::kInt16:
      return integer_bytes<std::int16_t>(*this);
    case DType::kUInt16:
      return integer_bytes<std::uint16_t>(*this);
    case DType::kInt32:
      return integer_bytes<std::int32_t>(*this);
    case DType::kUInt32:
      return integer_bytes<std::uint32_t>(*this);
    case DType::kInt64:
      return integer_bytes<std::int64_t>(*this);
    case DType::kUInt64:
      return integer_bytes<std::int64_t>(*this, true);
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return float_bytes(*this, dtype);
    default:
      if (base != 0 || !is_array(dtype)) break;
      return std::vector<std::byte>(static_cast<std::size_t>(element_size(dtype)));
  }
  throw Error(ErrorKind::kBadInput,
              "the value to pad with does not fit the type " + std::string(mindspore_name(dtype)));
}

NormalForm NormalForm::of_nothing(Shape shape) {
  NormalForm form;
  form.factors.resize(shape.size());
  form.shape = std::move(shape);
  return form;
}

NormalForm NormalForm::of_source(const Shape& shape, std::int64_t number) {
  NormalForm form = of_shape(shape);
  if (form.boxes.empty()) return form;
  form.boxes[0].source = number;
  std::int64_t stride = 1;
  for (std::size_t axis = form.boxes[0].axes.size(); axis-- > 0;) {
    form.boxes[0].axes[axis].stride = stride;
    stride *= form.boxes[0].axes[axis].end;
  }
  return form;
}

NormalForm NormalForm::of_literal(const Shape& shape, const Literal& value) {
  NormalForm form = of_shape(shape);
  if (form.boxes.empty()) return form;
  form.boxes[0].source = value.source;
  form.boxes[0].base = value.base;
  return form;
}

std::vector<std::int64_t> NormalForm::axes() const {
  std::vector<std::int64_t> all;
  for (const auto& lengths : factors) all.insert(all.end(), lengths.begin(), lengths.end());
  return all;
}

std::size_t NormalForm::axis_count() const noexcept {
  return first_axis(factors.size());
}

std::size_t NormalForm::first_axis(std::size_t dimension) const noexcept {
  std::size_t axis = 0;
  for (std::size_t d = 0; d < dimension; ++d) axis += factors[d].size();
  return axis;
}

void add_box(std::vector<FormTerm>& boxes, FormTerm box) {
  if (boxes.size() >= NormalForm::kMaxBoxes) {
    throw Error(ErrorKind::kUnsupported, "it would consist of more than " +
                                             std::to_string(NormalForm::kMaxBoxes) + " boxes");
  }
  boxes.push_back(std::move(box));
}

void split_axis(NormalForm& form, std::size_t dimension, std::size_t at, std::int64_t inner) {
  std::vector<std::int64_t>& factors = form.factors[dimension];
  const std::int64_t outer = factors[at] / inner;
  if (inner == 1 || outer == 1) return;
  const std::size_t axis = form.first_axis(dimension) + at;
  std::vector<FormTerm> boxes;
  boxes.reserve(form.boxes.size());
  for (const FormTerm& box : form.boxes) split_box(box, axis, inner, boxes);
  form.boxes = std::move(boxes);
  factors[at] = inner;
  factors.insert(factors.begin() + static_cast<std::ptrdiff_t>(at), outer);
}

void merge_axes(NormalForm& form, std::size_t dimension, std::size_t at) {
  std::vector<std::int64_t>& factors = form.factors[dimension];
  const std::int64_t inner = factors[at + 1];
  const std::size_t axis = form.first_axis(dimension) + at;
  std::vector<FormTerm> boxes;
  boxes.reserve(form.boxes.size());
  for (const FormTerm& box : form.boxes) {
    const TermAxis outer = box.axes[axis];
    if (is_mergeable(box, axis, inner)) {
      merge_into(box, axis, inner, outer, boxes);
      continue;
    }
    for (std::int64_t i = outer.begin; i < outer.end; ++i) {
      merge_into(box, axis, inner, {i, i + 1, 0}, boxes);
    }
  }
  form.boxes = std::move(boxes);
  factors[at] *= inner;
  factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(at) + 1);
}

void merge_contiguous(NormalForm& form) {
  for (std::size_t d = 0; d < form.factors.size(); ++d) {
    for (std::size_t at = 0; at + 1 < form.factors[d].size();) {
      if (all_mergeable(form, form.first_axis(d) + at, form.factors[d][at + 1])) {
        merge_axes(form, d, at);
      } else {
        ++at;
      }
    }
  }
}

std::vector<std::size_t> group_factors(NormalForm& form, std::size_t dimension,
                                       const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t>& factors = form.factors[dimension];
  std::vector<std::size_t> counts(lengths.size());
  std::size_t free = factors.size();  // those from here on are in a group
  for (std::size_t group = lengths.size(); group-- > 0;) {
    std::int64_t wanted = lengths[group];
    while (wanted > 1) {
      const std::int64_t last = factors[free - 1];
      if (wanted % last == 0) {
        wanted /= last;
        --free;
        ++counts[group];
      } else if (last % wanted == 0) {
        split_axis(form, dimension, free - 1, wanted);
        wanted = 1;
        ++counts[group];
      } else {
        merge_axes(form, dimension, free - 2);
        --free;
      }
    }
  }
  return counts;
}

}  // namespace reshardfs
