// SPDX-License-Identifier: Apache-2.0
/// Several normal forms as one. Where they meet, their dimensions need the same factors.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "modelmap/form_operations.h"

namespace reshardfs::modelmap {
namespace {

using Forms = std::vector<NormalForm>;

[[noreturn]] void fail_to_fit(const Shape& a, const Shape& b) {
  throw Error(ErrorKind::kBadInput, to_string(a) + " and " + to_string(b) + " do not fit together");
}

/// How many forms have a boundary between factors, by the number of indices behind it.
std::map<std::int64_t, std::size_t> count_boundaries(const Forms& forms, std::size_t dimension) {
  std::map<std::int64_t, std::size_t> counts;
  for (const NormalForm& form : forms) {
    std::int64_t behind = 1;
    const auto& factors = form.factors[dimension];
    for (std::size_t at = factors.size(); at-- > 0;) {
      behind *= factors[at];
      ++counts[behind];
    }
  }
  return counts;
}

/// The boundaries that all forms get: those that most have, as far as each divides the next and
/// the lengths of all. Ascending; there are at most 62, since each is at least twice the one
/// before.
std::vector<std::int64_t> common_boundaries(const Forms& forms, std::size_t dimension) {
  std::vector<std::pair<std::size_t, std::int64_t>> wanted;  // most frequent first
  for (const auto& [behind, count] : count_boundaries(forms, dimension)) {
    wanted.emplace_back(forms.size() - count, behind);
  }
  std::sort(wanted.begin(), wanted.end());
  std::int64_t divisor = 0;
  for (const NormalForm& form : forms) divisor = std::gcd(divisor, form.shape[dimension]);
  std::vector<std::int64_t> chosen;
  for (const auto& [rank, behind] : wanted) {
    const std::int64_t boundary = behind;
    const bool fits = std::all_of(chosen.begin(), chosen.end(), [&](std::int64_t other) {
      return boundary % other == 0 || other % boundary == 0;
    });
    if (fits && divisor % boundary == 0) chosen.push_back(boundary);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// Makes a dimension one factor for each of these lengths (none for a length of 1).
void refactor(NormalForm& form, std::size_t dimension, const std::vector<std::int64_t>& lengths) {
  if (form.factors[dimension] == lengths) return;
  const std::vector<std::size_t> counts = group_factors(form, dimension, lengths);
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    for (std::size_t i = 1; i < count; ++i) merge_axes(form, dimension, at);
    if (count > 0) ++at;
  }
}

/// The factors that boundaries make, outermost first.
std::vector<std::int64_t> factors_between(const std::vector<std::int64_t>& boundaries) {
  std::vector<std::int64_t> factors;
  std::int64_t inner = 1;
  for (const std::int64_t boundary : boundaries) {
    if (boundary != inner) factors.insert(factors.begin(), boundary / inner);
    inner = boundary;
  }
  return factors;
}

void give_same_factors(Forms& forms, std::size_t dimension) {
  const std::vector<std::int64_t> factors = factors_between(common_boundaries(forms, dimension));
  for (NormalForm& form : forms) refactor(form, dimension, factors);
}

/// Appends the boxes of a form whose axis `axis` is moved by `offset` along a longer one.
void add_moved(NormalForm& joined, const NormalForm& form, std::size_t axis, std::int64_t offset) {
  for (const FormTerm& box : form.boxes) {
    FormTerm moved = box;
    moved.axes[axis].begin += offset;
    moved.axes[axis].end += offset;
    add_box(joined.boxes, std::move(moved));
  }
}

/// Makes the dimension one factor of `lead` indices before those that all forms have in common;
/// a factor of length 1 too.
void lead_factor(NormalForm& form, std::size_t dimension, std::int64_t lead,
                 const std::vector<std::int64_t>& common) {
  std::vector<std::int64_t> lengths = common;
  lengths.insert(lengths.begin(), lead);
  if (lead > 1) return refactor(form, dimension, lengths);
  refactor(form, dimension, common);
  const auto axis = static_cast<std::ptrdiff_t>(form.first_axis(dimension));
  for (FormTerm& box : form.boxes) box.axes.insert(box.axes.begin() + axis, {0, 1, 0});
  form.factors[dimension].insert(form.factors[dimension].begin(), 1);
}

NormalForm concat_with_elements(Forms forms, std::size_t dimension) {
  if (forms.size() == 1) return std::move(forms[0]);
  for (std::size_t d = 0; d < forms[0].shape.size(); ++d) {
    if (d != dimension) give_same_factors(forms, d);
  }
  const std::vector<std::int64_t> boundaries = common_boundaries(forms, dimension);
  const std::int64_t inner = boundaries.empty() ? 1 : boundaries.back();
  const std::vector<std::int64_t> common = factors_between(boundaries);
  NormalForm joined = NormalForm::of_nothing(forms[0].shape);
  std::int64_t offset = 0;
  for (NormalForm& form : forms) {
    lead_factor(form, dimension, form.shape[dimension] / inner, common);
    add_moved(joined, form, form.first_axis(dimension), offset);
    offset += form.shape[dimension] / inner;
  }
  joined.factors = std::move(forms[0].factors);
  joined.factors[dimension][0] = offset;
  joined.shape[dimension] = offset * inner;
  return joined;
}

void check_dimension(const Forms& forms, std::int64_t dimension, std::size_t highest) {
  if (forms.empty()) throw Error(ErrorKind::kBadInput, "there is nothing to join");
  if (dimension >= 0 && dimension <= static_cast<std::int64_t>(highest)) return;
  throw Error(ErrorKind::kBadInput, "not possible for " + to_string(forms[0].shape) +
                                        ": there is no dimension " + std::to_string(dimension));
}

}  // namespace

NormalForm concat(Forms forms, std::int64_t dimension) {
  check_dimension(forms, dimension, forms.empty() ? 0 : forms[0].shape.size());
  if (static_cast<std::size_t>(dimension) == forms[0].shape.size()) {
    check_dimension(forms, -1, 0);
  }
  const auto d = static_cast<std::size_t>(dimension);
  Shape shape = forms[0].shape;
  shape[d] = 0;
  for (const NormalForm& form : forms) {
    Shape others = form.shape;
    if (d < others.size()) others[d] = shape[d];
    if (others != shape) fail_to_fit(forms[0].shape, form.shape);
    shape[d] = add_or_throw(shape[d], form.shape[d], "the length of a dimension");
  }
  if (element_count(shape) == 0) return NormalForm::of_nothing(std::move(shape));
  std::erase_if(forms, [](const NormalForm& form) { return form.boxes.empty(); });
  return tidy(concat_with_elements(std::move(forms), d));
}

NormalForm stack(Forms forms, std::int64_t dimension) {
  check_dimension(forms, dimension, forms.empty() ? 0 : forms[0].shape.size());
  for (const NormalForm& form : forms) {
    if (form.shape != forms[0].shape) fail_to_fit(forms[0].shape, form.shape);
  }
  Shape shape = forms[0].shape;
  shape.insert(shape.begin() + dimension, static_cast<std::int64_t>(forms.size()));
  if (element_count(shape) == 0) return tidy(NormalForm::of_nothing(std::move(shape)));
  for (std::size_t d = 0; d < forms[0].shape.size(); ++d) give_same_factors(forms, d);
  NormalForm joined = NormalForm::of_nothing(std::move(shape));
  const auto d = static_cast<std::size_t>(dimension);
  const std::size_t axis = forms[0].first_axis(d);
  const bool has_axis = forms.size() > 1;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    for (FormTerm& box : forms[i].boxes) {
      const auto at = static_cast<std::int64_t>(i);
      if (has_axis) {
        box.axes.insert(box.axes.begin() + static_cast<std::ptrdiff_t>(axis), {at, at + 1, 0});
      }
      add_box(joined.boxes, std::move(box));
    }
  }
  joined.factors = std::move(forms[0].factors);
  joined.factors.emplace(joined.factors.begin() + dimension);
  if (has_axis) joined.factors[d] = {static_cast<std::int64_t>(forms.size())};
  return tidy(std::move(joined));
}

}  // namespace reshardfs::modelmap
