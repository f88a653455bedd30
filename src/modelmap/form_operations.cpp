// SPDX-License-Identifier: Apache-2.0
#include "modelmap/form_operations.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/text/text.h"

namespace reshardfs::modelmap {
namespace {

[[noreturn]] void fail_for(const Shape& shape, const std::string& what) {
  throw Error(ErrorKind::kBadInput, "not possible for " + to_string(shape) + ": " + what);
}

std::size_t checked_dimension(const NormalForm& form, std::int64_t dimension) {
  if (dimension < 0 || dimension >= static_cast<std::int64_t>(form.shape.size())) {
    fail_for(form.shape, "there is no dimension " + std::to_string(dimension));
  }
  return static_cast<std::size_t>(dimension);
}

/// `shape` with a number for -1.
Shape resolved(const Shape& from, Shape shape) {
  const std::int64_t elements = element_count(from);
  const auto cannot = [&] {
    fail_for(from, counted(static_cast<std::size_t>(elements), "element") +
                       " cannot be divided into " + to_string(shape));
  };
  std::optional<std::size_t> open;
  Shape known;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != -1) {
      known.push_back(shape[d]);
    } else if (std::exchange(open, d)) {
      fail_for(from, to_string(shape) + " has -1 more than once");
    }
  }
  if (std::any_of(known.begin(), known.end(), [](std::int64_t d) { return d < 0; })) cannot();
  const std::int64_t rest = element_count(known);
  if (open) {
    if (rest == 0 || elements % rest != 0) cannot();
    shape[*open] = elements / rest;
  }
  if (element_count(shape) != elements) cannot();
  return shape;
}

void drop_axis(NormalForm& form, std::size_t dimension, std::size_t at) {
  const std::size_t axis = form.first_axis(dimension) + at;
  for (FormTerm& box : form.boxes)
    box.axes.erase(box.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  auto& factors = form.factors[dimension];
  factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(at));
}

/// The indices of [begin, end) that start + step * y is, for y from 0 on, as a range of y.
std::pair<std::int64_t, std::int64_t> steps_within(const TermAxis& axis, const StepRange& range) {
  const auto first_step = [&](std::int64_t index) {
    const std::int64_t way = std::max<std::int64_t>(0, index - range.start);
    return way / range.step + (way % range.step == 0 ? 0 : 1);
  };
  return {first_step(axis.begin), first_step(std::min(axis.end, range.stop))};
}

/// Keeps what one axis has in the range.
void cut_axis(NormalForm& form, std::size_t dimension, std::size_t at, const StepRange& range) {
  const std::size_t axis = form.first_axis(dimension) + at;
  std::vector<FormTerm> kept;
  for (FormTerm& box : form.boxes) {
    const TermAxis old = box.axes[axis];
    const auto [begin, end] = steps_within(old, range);
    if (begin >= end) continue;
    box.base += (range.start + begin * range.step - old.begin) * old.stride;
    box.axes[axis] = {begin, end, end - begin == 1 ? 0 : old.stride * range.step};
    kept.push_back(std::move(box));
  }
  form.boxes = std::move(kept);
  const std::int64_t way = range.stop - range.start;
  form.factors[dimension][at] = way / range.step + (way % range.step == 0 ? 0 : 1);
  if (form.factors[dimension][at] == 1) drop_axis(form, dimension, at);
}

/// Keeps one index of the inner factors of a dimension and goes on with the outer one, if the step
/// is a multiple of theirs.
bool cut_inner_factors(NormalForm& form, std::size_t dimension, StepRange& range) {
  auto& factors = form.factors[dimension];
  const std::int64_t inner = product(factors) / factors.front();
  if (factors.size() < 2 || range.step % inner != 0) return false;
  std::int64_t index = range.start % inner;
  std::int64_t block = inner;
  for (std::size_t at = 1; at < factors.size();) {
    block /= factors[at];
    cut_axis(form, dimension, at, {index / block, index / block + 1, 1});  // which drops it
    index %= block;
  }
  const std::int64_t count = (range.stop - range.start - 1) / range.step + 1;
  range.start /= inner;
  range.step /= inner;
  range.stop = range.start + (count - 1) * range.step + 1;
  return true;
}

/// Axes of a dimension, outermost first: cut, fixed to one index, or merged with the next one.
void cut_dimension(NormalForm& form, std::size_t dimension, StepRange range) {
  std::size_t at = 0;
  auto& factors = form.factors[dimension];
  if (range.step > 1 && !cut_inner_factors(form, dimension, range)) {
    while (factors.size() > 1) merge_axes(form, dimension, 0);
  }
  while (at < factors.size()) {
    std::int64_t inner = 1;
    for (std::size_t i = at + 1; i < factors.size(); ++i) inner *= factors[i];
    if (inner == 1 || (range.start % inner == 0 && range.stop % inner == 0)) {
      return cut_axis(form, dimension, at, {range.start / inner, range.stop / inner, range.step});
    }
    const std::int64_t index = range.start / inner;
    if (index == (range.stop - 1) / inner) {
      cut_axis(form, dimension, at, {index, index + 1, 1});  // which drops it
      range.start -= index * inner;
      range.stop -= index * inner;
    } else {
      merge_axes(form, dimension, at);
    }
  }
}

std::string slice_text(const StepRange& range) {
  std::string text = std::to_string(range.start) + ":" + std::to_string(range.stop);
  return range.step == 1 ? text : text + ":" + std::to_string(range.step);
}

/// A slice that is within the dimension.
NormalForm sliced(NormalForm form, std::size_t dimension, const StepRange& range) {
  const std::int64_t way = range.stop - range.start;
  const std::int64_t length = way / range.step + (way % range.step == 0 ? 0 : 1);
  if (length == form.shape[dimension] && range.step == 1) return form;
  form.shape[dimension] = length;
  if (form.elements() == 0) return NormalForm::of_nothing(std::move(form.shape));
  // Only the last index counts, so that a step may end where the dimension does.
  if (!form.factors[dimension].empty()) {
    cut_dimension(
        form, dimension,
        {range.start, length == 1 ? range.start + 1 : range.stop, length == 1 ? 1 : range.step});
  }
  return tidy(std::move(form));
}

}  // namespace

NormalForm tidy(NormalForm form) {
  if (form.shape.size() > NormalForm::kMaxDimensions) {
    throw Error(ErrorKind::kUnsupported, "it would have more than " +
                                             std::to_string(NormalForm::kMaxDimensions) +
                                             " dimensions: " + to_string(form.shape));
  }
  merge_contiguous(form);
  if (form.axis_count() > NormalForm::kMaxAxes) {
    throw Error(ErrorKind::kUnsupported,
                "it would have more than " + std::to_string(NormalForm::kMaxAxes) + " axes");
  }
  return form;
}

NormalForm reshape(NormalForm form, Shape shape) {
  shape = resolved(form.shape, std::move(shape));
  if (element_count(shape) == 0) return tidy(NormalForm::of_nothing(std::move(shape)));
  std::vector<std::vector<std::int64_t>> flat;
  flat.push_back(form.axes());
  form.factors = std::move(flat);
  const std::vector<std::size_t> counts = group_factors(form, 0, shape);
  std::vector<std::vector<std::int64_t>> factors;
  auto next = form.factors[0].begin();
  for (const std::size_t count : counts) {
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    factors.emplace_back(next, end);
    next = end;
  }
  form.factors = std::move(factors);
  form.shape = std::move(shape);
  return tidy(std::move(form));
}

NormalForm permute(NormalForm form, const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool fits = order.size() == form.shape.size();
  for (std::size_t i = 0; fits && i < sorted.size(); ++i) {
    fits = sorted[i] == static_cast<std::int64_t>(i);
  }
  if (!fits) {
    fail_for(form.shape, to_string(order) + " does not have each of its dimensions once");
  }
  NormalForm out;
  std::vector<std::size_t> axes;
  for (const std::int64_t number : order) {
    const auto dimension = static_cast<std::size_t>(number);
    out.shape.push_back(form.shape[dimension]);
    out.factors.push_back(form.factors[dimension]);
    const std::size_t first = form.first_axis(dimension);
    for (std::size_t i = 0; i < form.factors[dimension].size(); ++i) axes.push_back(first + i);
  }
  for (const FormTerm& box : form.boxes) {
    FormTerm& turned = out.boxes.emplace_back(FormTerm{box.source, box.base, {}});
    for (const std::size_t axis : axes) turned.axes.push_back(box.axes[axis]);
  }
  return tidy(std::move(out));
}

NormalForm slice(NormalForm form, std::int64_t dimension, const StepRange& range) {
  const std::size_t d = checked_dimension(form, dimension);
  if (range.step < 1 || range.start < 0 || range.start > range.stop || range.stop > form.shape[d]) {
    fail_for(form.shape, "there is no " + slice_text(range) + " in a dimension of length " +
                             std::to_string(form.shape[d]));
  }
  return sliced(std::move(form), d, range);
}

NormalForm split(NormalForm form, std::int64_t dimension, std::int64_t parts, std::int64_t part) {
  const std::size_t d = checked_dimension(form, dimension);
  if (parts < 1 || form.shape[d] % parts != 0) {
    fail_for(form.shape, "length " + std::to_string(form.shape[d]) + " cannot be divided into " +
                             std::to_string(parts) + " parts");
  }
  if (part < 0 || part >= parts) {
    fail_for(form.shape, "there is no part " + std::to_string(part) + " of " +
                             std::to_string(parts) + ", which count from 0");
  }
  const std::int64_t length = form.shape[d] / parts;
  return sliced(std::move(form), d, {part * length, (part + 1) * length, 1});
}

NormalForm take(NormalForm form, std::int64_t dimension, std::int64_t index) {
  const std::size_t d = checked_dimension(form, dimension);
  if (index < 0 || index >= form.shape[d]) {
    fail_for(form.shape, "there is no index " + std::to_string(index) +
                             " in a dimension of length " + std::to_string(form.shape[d]));
  }
  form = sliced(std::move(form), d, {index, index + 1, 1});
  form.shape.erase(form.shape.begin() + dimension);
  form.factors.erase(form.factors.begin() + dimension);
  return form;
}

NormalForm repeat(NormalForm form, std::int64_t dimension, std::int64_t times) {
  const std::size_t d = checked_dimension(form, dimension);
  if (times < 1) fail_for(form.shape, "it cannot be repeated " + std::to_string(times) + " times");
  form.shape[d] = mul_or_throw(form.shape[d], times, "the length of a dimension");
  if (form.elements() == 0 || times == 1) return form;
  const std::size_t axis = form.first_axis(d) + form.factors[d].size();
  form.factors[d].push_back(times);
  for (FormTerm& box : form.boxes) {
    box.axes.insert(box.axes.begin() + static_cast<std::ptrdiff_t>(axis), {0, times, 0});
  }
  return tidy(std::move(form));
}

NormalForm pad(NormalForm form, std::int64_t dimension, std::int64_t length, const Literal& value) {
  const std::size_t d = checked_dimension(form, dimension);
  if (length < form.shape[d]) {
    fail_for(form.shape, "length " + std::to_string(form.shape[d]) +
                             " is more than the wanted length " + std::to_string(length));
  }
  if (length == form.shape[d]) return form;
  Shape rest = form.shape;
  rest[d] = length - form.shape[d];
  std::vector<NormalForm> parts;
  parts.push_back(std::move(form));
  parts.push_back(NormalForm::of_literal(rest, value));
  return concat(std::move(parts), dimension);
}

NormalForm cut(NormalForm form, const std::vector<StepRange>& ranges) {
  if (ranges.size() != form.shape.size()) {
    fail_for(form.shape, "it is cut along " + std::to_string(ranges.size()) + " dimensions");
  }
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    form = slice(std::move(form), static_cast<std::int64_t>(d), ranges[d]);
  }
  return form;
}

}  // namespace reshardfs::modelmap
