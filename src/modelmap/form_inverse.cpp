// SPDX-License-Identifier: Apache-2.0
#include "modelmap/form_inverse.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>

#include "reshardfs/error.h"

#include "modelmap/disjoint_boxes.h"
#include "modelmap/form_operations.h"

namespace reshardfs::modelmap {
namespace {

/// One axis of a box, in both spaces.
struct Move {
  std::int64_t count = 1;
  std::int64_t source = 0;  ///< stride in the source; positive
  std::int64_t target = 0;  ///< stride in the target
};

/// A box in terms of addresses: elements of the source and of the target.
struct AddressTerm {
  std::size_t reading = 0;
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::vector<Move> moves{};  ///< by stride in the source, the largest first
};

/// Of each repeated element the first copy.
AddressTerm address_term(const FormTerm& box, const std::vector<std::int64_t>& target_strides,
                         std::size_t reading) {
  AddressTerm out{reading, box.base, 0, {}};
  for (std::size_t axis = 0; axis < box.axes.size(); ++axis) {
    const TermAxis& range = box.axes[axis];
    out.target += range.begin * target_strides[axis];
    if (range.stride > 0) {
      out.moves.push_back({range.length(), range.stride, target_strides[axis]});
    }
  }
  std::sort(out.moves.begin(), out.moves.end(),
            [](const Move& a, const Move& b) { return a.source > b.source; });
  return out;
}

std::vector<std::int64_t> strides_of(const NormalForm& form) {
  std::vector<std::int64_t> strides = form.axes();
  std::int64_t behind = 1;
  for (std::size_t axis = strides.size(); axis-- > 0;) {
    behind *= std::exchange(strides[axis], behind);
  }
  return strides;
}

/// Whether a box reads an element several times.
bool repeats_elements(const FormTerm& box) {
  return std::any_of(box.axes.begin(), box.axes.end(),
                     [](const TermAxis& axis) { return axis.stride == 0 && axis.length() > 1; });
}

/// The strides at which the flat source is split into axes: those of the boxes, as far as each
/// divides the next and the whole. Those that most boxes need come first. Ascending, from 1 to
/// `elements`.
std::vector<std::int64_t> choose_strides(const std::vector<AddressTerm>& boxes,
                                         std::int64_t elements) {
  std::map<std::int64_t, std::int64_t> uses;
  for (const AddressTerm& box : boxes) {
    for (const Move& move : box.moves)
      uses[move.source] += std::min<std::int64_t>(move.count, 1000);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> wanted;
  for (const auto& [stride, count] : uses) {
    if (elements % stride == 0) wanted.emplace_back(-count, stride);
  }
  std::sort(wanted.begin(), wanted.end());
  std::vector<std::int64_t> chosen = {1, elements};
  for (const auto& [rank, stride] : wanted) {
    const std::int64_t candidate = stride;
    const bool fits = std::all_of(chosen.begin(), chosen.end(), [&](std::int64_t other) {
      return candidate % other == 0 || other % candidate == 0;
    });
    if (fits) chosen.push_back(candidate);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

/// The number of elements, or a larger one that the largest stride divides: where no form is asked
/// for, every second row of an odd number of them need not be boxes of their own.
std::int64_t divisible_elements(const std::vector<AddressTerm>& boxes, std::int64_t elements) {
  std::int64_t largest = 1;
  for (const AddressTerm& box : boxes) {
    if (!box.moves.empty()) largest = std::max(largest, box.moves.front().source);
  }
  std::int64_t more = 0;
  const std::int64_t rest = elements % largest;
  if (rest == 0 || __builtin_add_overflow(elements, largest - rest, &more)) return elements;
  return more;
}

/// Boxes whose strides are chosen ones: a move with another one becomes a box for each index.
void add_with_strides(const AddressTerm& box, const std::vector<std::int64_t>& chosen,
                      std::vector<AddressTerm>& out) {
  const auto odd = std::find_if(box.moves.begin(), box.moves.end(), [&](const Move& move) {
    return !std::binary_search(chosen.begin(), chosen.end(), move.source);
  });
  if (odd == box.moves.end()) {
    if (out.size() >= NormalForm::kMaxBoxes) {
      throw Error(ErrorKind::kUnsupported, "it would consist of more than " +
                                               std::to_string(NormalForm::kMaxBoxes) + " boxes");
    }
    out.push_back(box);
    return;
  }
  AddressTerm single = box;
  single.moves.erase(single.moves.begin() + (odd - box.moves.begin()));
  for (std::int64_t i = 0; i < odd->count; ++i) {
    add_with_strides(single, chosen, out);
    single.source += odd->source;
    single.target += odd->target;
  }
}

/// Places boxes in the flat source, of which axis k has stride strides[k] (ascending).
class Placement {
 public:
  Placement(std::vector<std::int64_t> strides, std::vector<FormTerm>& out)
      : strides_(std::move(strides)), axes_(strides_.size() - 1), out_(out) {}

  void place(const AddressTerm& box) {
    Address address{box.source, box.target, std::vector<Move>(axes_)};
    for (const Move& move : box.moves) {
      const auto at = std::lower_bound(strides_.begin(), strides_.end(), move.source);
      address.moves[static_cast<std::size_t>(at - strides_.begin())] = move;
    }
    reading_ = static_cast<std::int64_t>(box.reading);
    pending_.push_back(std::move(address));
    while (!pending_.empty()) {
      Address next = std::move(pending_.back());
      pending_.pop_back();
      settle(std::move(next));
    }
  }

 private:
  struct Address {
    std::int64_t source = 0;
    std::int64_t target = 0;
    std::vector<Move> moves{};  ///< one for each axis
  };

  std::int64_t length(std::size_t axis) const { return strides_[axis + 1] / strides_[axis]; }
  std::int64_t index(const Address& address, std::size_t axis) const {
    return address.source / strides_[axis] % length(axis);
  }

  /// Splits an address that leaves an axis at its end, or adds it to the boxes.
  void settle(Address address) {
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      const std::int64_t begin = index(address, axis);
      if (address.moves[axis].count > length(axis) - begin) return split(address, axis, begin);
    }
    FormTerm box{reading_, address.target, {}};
    for (std::size_t axis = axes_; axis-- > 0;) {
      const std::int64_t begin = index(address, axis);
      const Move& move = address.moves[axis];
      box.axes.push_back({begin, begin + move.count, move.count == 1 ? 0 : move.target});
    }
    add_box(out_, std::move(box));
  }

  /// The head up to the end of the axis, whole lengths of it as indices of the next axis, the rest.
  void split(const Address& address, std::size_t axis, std::int64_t begin) {
    const std::int64_t all = length(axis);
    const std::int64_t head = begin == 0 ? 0 : all - begin;
    const std::int64_t blocks = (address.moves[axis].count - head) / all;
    const std::int64_t tail = address.moves[axis].count - head - blocks * all;
    if (head > 0) push_part(address, axis, 0, head);
    if (tail > 0) push_part(address, axis, head + blocks * all, tail);
    if (blocks == 0) return;
    push_part(address, axis, head, all);
    if (blocks == 1) return;
    const Move& move = address.moves[axis];
    pending_.back().moves[axis + 1] = {blocks, move.source * all, move.target * all};
  }

  void push_part(const Address& address, std::size_t axis, std::int64_t skip, std::int64_t count) {
    Address part = address;
    const Move& move = address.moves[axis];
    part.source += skip * move.source;
    part.target += skip * move.target;
    part.moves[axis].count = count;
    pending_.push_back(std::move(part));
  }

  std::vector<std::int64_t> strides_;
  std::size_t axes_;
  std::vector<FormTerm>& out_;
  std::int64_t reading_ = 0;
  std::vector<Address> pending_{};
};

/// @param overlap gets a reading that reads elements twice in one box.
std::vector<AddressTerm> collect(std::span<const Reading> readings, Inverse& inverse) {
  std::vector<AddressTerm> boxes;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    const NormalForm& form = readings[i].form->form();
    const std::vector<std::int64_t> strides = strides_of(form);
    for (const std::uint32_t box : readings[i].form->boxes_of(readings[i].source)) {
      if (!readings[i].repeats && repeats_elements(form.boxes[box])) inverse.overlap = {i, i};
      boxes.push_back(address_term(form.boxes[box], strides, i));
    }
  }
  return boxes;
}

NormalForm flat_form(const std::vector<std::int64_t>& strides) {
  NormalForm flat;
  flat.shape = {strides.back()};
  flat.factors.resize(1);
  for (std::size_t axis = strides.size() - 1; axis-- > 0;) {
    flat.factors[0].push_back(strides[axis + 1] / strides[axis]);
  }
  return flat;
}

}  // namespace

IndexedForm::IndexedForm(NormalForm form) : form_(std::move(form)) {
  for (std::size_t i = 0; i < form_.boxes.size(); ++i) {
    if (!form_.boxes[i].is_literal()) order_.push_back(static_cast<std::uint32_t>(i));
  }
  std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return form_.boxes[a].source < form_.boxes[b].source;
  });
}

std::span<const std::uint32_t> IndexedForm::boxes_of(std::int64_t source) const {
  const auto begin = std::lower_bound(
      order_.begin(), order_.end(), source,
      [&](std::uint32_t box, std::int64_t wanted) { return form_.boxes[box].source < wanted; });
  auto end = begin;
  while (end != order_.end() && form_.boxes[*end].source == source) ++end;
  return {begin, end};
}

Inverse invert(const Shape& shape, std::span<const Reading> readings, InverseParts wanted) {
  Inverse inverse;
  const std::int64_t elements = element_count(shape);
  inverse.form = NormalForm::of_nothing(shape);
  if (elements == 0) return inverse;
  const std::vector<AddressTerm> boxes = collect(readings, inverse);
  if (inverse.overlap) return inverse;
  const bool is_form_wanted = wanted == InverseParts::kAll;
  const std::vector<std::int64_t> strides =
      choose_strides(boxes, is_form_wanted ? elements : divisible_elements(boxes, elements));
  std::vector<AddressTerm> aligned;
  for (const AddressTerm& box : boxes) add_with_strides(box, strides, aligned);
  NormalForm flat = flat_form(strides);
  Placement placement(strides, flat.boxes);
  for (const AddressTerm& box : aligned) placement.place(box);
  const auto may_repeat = [&](std::int64_t reading) {
    return readings[static_cast<std::size_t>(reading)].repeats;
  };
  if (const auto twice = make_disjoint(flat, may_repeat)) {
    inverse.overlap = {static_cast<std::size_t>(twice->first),
                       static_cast<std::size_t>(twice->second)};
    return inverse;
  }
  inverse.undefined = elements;
  for (const FormTerm& box : flat.boxes) inverse.undefined -= box.elements();
  if (inverse.undefined == 0 && is_form_wanted) inverse.form = reshape(std::move(flat), shape);
  return inverse;
}

}  // namespace reshardfs::modelmap
