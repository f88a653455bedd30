// SPDX-License-Identifier: Apache-2.0
#include "layout/form_walk.h"

#include <utility>
#include <vector>

#include "layout/regions.h"

namespace reshardfs {
namespace {

/// @param part of the box, by its axes.
Nest nest_in(const FormTerm& box, const Region& part) noexcept {
  Nest nest;
  nest.from = box.base;
  nest.to = part.to;
  for (std::size_t axis = 0; axis < box.axes.size(); ++axis) {
    const IndexRange& range = part.ranges[axis];
    const TermAxis& own = box.axes[axis];
    nest.from += (range.begin - own.begin) * own.stride;
    nest.add({range.count, range.step * own.stride, range.to});
  }
  nest.join();
  return nest;
}

}  // namespace

BoxSet boxes_of(const NormalForm& form) {
  std::vector<Box> boxes;
  boxes.reserve(form.boxes.size());
  for (const FormTerm& box : form.boxes) {
    Box& made = boxes.emplace_back();
    for (const TermAxis& axis : box.axes) {
      made.offsets.push_back(axis.begin);
      made.sizes.push_back(axis.length());
    }
  }
  return {form.axes(), boxes};
}

FormWalk::FormWalk(std::shared_ptr<const NormalForm> form)
    : form_(std::move(form)), axes_(form_->axis_count()) {
  if (form_->boxes.size() > 1) boxes_ = boxes_of(*form_);
}

void FormWalk::visit(const Region& region, Visit visit) const {
  if (form_->boxes.empty()) return;
  Region axes;
  axes.to = region.to;
  axes.ranges.resize(axes_);
  visit_dimension(0, region, axes, visit);
}

/// A range of a dimension is regions of the axes that it is factored into.
void FormWalk::visit_dimension(std::size_t d, const Region& region, Region& axes,
                               const Visit& visit) const {
  if (d == form_->factors.size()) return visit_axes(axes, visit);
  const IndexRange& range = region.ranges[d];
  const std::size_t first = form_->first_axis(d);
  const std::vector<std::int64_t>& lengths = form_->factors[d];
  if (lengths.size() == 1) axes.ranges[first] = range;
  if (lengths.size() < 2) return visit_dimension(d + 1, region, axes, visit);
  Nest along;
  along.from = range.begin;
  along.to = axes.to;
  along.add({range.count, range.step, range.to});
  for_each_region(along, lengths, [&](const Region& part) {
    const std::int64_t to = std::exchange(axes.to, part.to);
    for (std::size_t i = 0; i < lengths.size(); ++i) axes.ranges[first + i] = part.ranges[i];
    visit_dimension(d + 1, region, axes, visit);
    axes.to = to;
  });
}

void FormWalk::visit_axes(const Region& axes, const Visit& visit) const {
  if (!boxes_) return visit(form_->boxes[0].source, nest_in(form_->boxes[0], axes));
  for_each_box(axes, *boxes_, [&](const Region& part, std::size_t number) {
    const FormTerm& box = form_->boxes[number];
    visit(box.source, nest_in(box, part));
  });
}

}  // namespace reshardfs
