// SPDX-License-Identifier: Apache-2.0
#include "modelmap/disjoint_boxes.h"

#include <algorithm>
#include <string>

#include "reshardfs/error.h"

#include "layout/form_walk.h"

namespace reshardfs::modelmap {
namespace {

/// Comparisons of two boxes: seconds at most.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 25U;

void count_steps(std::int64_t& left, std::size_t steps) {
  left -= static_cast<std::int64_t>(steps);
  if (left < 0) throw Error(ErrorKind::kUnsupported, "its boxes interlock too much");
}

bool overlap_along(const FormTerm& a, const FormTerm& b, std::size_t axis) {
  return a.axes[axis].begin < b.axes[axis].end && b.axes[axis].begin < a.axes[axis].end;
}

/// The part of a box with these indices of one axis.
FormTerm part_of(const FormTerm& box, std::size_t axis, std::int64_t begin, std::int64_t end) {
  FormTerm part = box;
  TermAxis& range = part.axes[axis];
  part.base += (begin - range.begin) * range.stride;
  range = {begin, end, end - begin == 1 ? 0 : range.stride};
  return part;
}

/// Where the place of an element in one box lies before its place in another: always, never, or (no
/// value) for some elements of both alone.
std::optional<bool> comes_first(const FormTerm& a, const FormTerm& b) {
  // Both places are within the source, so that no sum of such differences overflows.
  std::int64_t lowest = a.base - b.base;
  std::int64_t highest = lowest;
  for (std::size_t axis = 0; axis < a.axes.size(); ++axis) {
    const std::int64_t way =
        (a.axes[axis].stride - b.axes[axis].stride) * (a.axes[axis].length() - 1);
    (way < 0 ? lowest : highest) += way;
  }
  if (highest <= 0) return true;
  if (lowest >= 0) return false;
  return std::nullopt;
}

/// Adds boxes one after the other, so that no element is in two of them.
class FirstCopies {
 public:
  std::vector<FormTerm> take(std::vector<FormTerm> boxes) {
    // The last first, since `pending_` is taken from its end.
    std::sort(boxes.begin(), boxes.end(),
              [](const FormTerm& a, const FormTerm& b) { return a.base > b.base; });
    pending_ = std::move(boxes);
    while (!pending_.empty()) {
      FormTerm box = std::move(pending_.back());
      pending_.pop_back();
      add(std::move(box));
    }
    return std::move(kept_);
  }

 private:
  void add(FormTerm box) {
    count_steps(steps_left_, kept_.size() + 1);
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (!overlaps(kept_[i], box)) continue;
      FormTerm other = std::move(kept_[i]);
      kept_[i] = std::move(kept_.back());
      kept_.pop_back();
      FormTerm shared_new = cut_off(std::move(box), other);
      FormTerm shared_old = cut_off(std::move(other), shared_new);
      settle(std::move(shared_old), std::move(shared_new));
      return;
    }
    add_box(kept_, std::move(box));
  }

  static bool overlaps(const FormTerm& a, const FormTerm& b) {
    for (std::size_t axis = 0; axis < a.axes.size(); ++axis) {
      if (!overlap_along(a, b, axis)) return false;
    }
    return true;
  }

  /// Puts back what a box has outside of another one.
  /// @return the rest of it
  FormTerm cut_off(FormTerm box, const FormTerm& other) {
    for (std::size_t axis = 0; axis < box.axes.size(); ++axis) {
      const TermAxis range = box.axes[axis];
      const std::int64_t begin = std::max(range.begin, other.axes[axis].begin);
      const std::int64_t end = std::min(range.end, other.axes[axis].end);
      if (range.begin < begin) pending_.push_back(part_of(box, axis, range.begin, begin));
      if (end < range.end) pending_.push_back(part_of(box, axis, end, range.end));
      if (begin != range.begin || end != range.end) box = part_of(box, axis, begin, end);
    }
    return box;
  }

  /// Puts back that of two equal boxes which comes first, by halves if that depends on the element.
  void settle(FormTerm a, FormTerm b) {
    const std::optional<bool> first = comes_first(a, b);
    if (first) return pending_.push_back(*first ? std::move(a) : std::move(b));
    std::size_t axis = 0;
    while (a.axes[axis].length() == 1 || a.axes[axis].stride == b.axes[axis].stride) ++axis;
    const TermAxis range = a.axes[axis];
    const std::int64_t middle = range.begin + range.length() / 2;
    for (const auto& [begin, end] :
         {std::pair(range.begin, middle), std::pair(middle, range.end)}) {
      count_steps(steps_left_, 1);
      settle(part_of(a, axis, begin, end), part_of(b, axis, begin, end));
    }
  }

  std::vector<FormTerm> pending_{};
  std::vector<FormTerm> kept_{};
  std::int64_t steps_left_ = kMostSteps;
};

}  // namespace

std::optional<std::pair<std::int64_t, std::int64_t>> make_disjoint(
    NormalForm& form, const std::function<bool(std::int64_t source)>& may_repeat) {
  auto found = boxes_of(form).overlap();
  if (!found) return std::nullopt;
  // Copies within one source are cut off; what overlaps then is of two sources.
  std::vector<FormTerm> single;
  std::vector<std::vector<FormTerm>> repeated;
  for (FormTerm& box : form.boxes) {
    const auto source = static_cast<std::size_t>(box.source);
    if (!may_repeat(box.source)) {
      single.push_back(std::move(box));
      continue;
    }
    if (repeated.size() <= source) repeated.resize(source + 1);
    repeated[source].push_back(std::move(box));
  }
  for (std::vector<FormTerm>& group : repeated) {
    for (FormTerm& box : FirstCopies().take(std::move(group))) add_box(single, std::move(box));
  }
  form.boxes = std::move(single);
  found = boxes_of(form).overlap();
  if (!found) return std::nullopt;
  return std::pair(form.boxes[found->first].source, form.boxes[found->second].source);
}

}  // namespace reshardfs::modelmap
