// SPDX-License-Identifier: Apache-2.0
#include "report/text/form_picture.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "layout/nest.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

/// `count` indices from `begin` on, `step` apart.
struct Level {
  std::int64_t begin = 0;
  std::int64_t count = 1;
  std::int64_t step = 1;
};

/// Indices of one dimension: all sums of one index of each level.
using Indices = std::vector<Level>;

/// Coarse levels first, without those of one index, and with levels that continue each other as
/// one.
Indices simplified(Indices levels, std::int64_t& begin) {
  Indices out;
  begin = 0;
  std::sort(levels.begin(), levels.end(), [](auto& a, auto& b) { return a.step > b.step; });
  for (const Level& level : levels) {
    begin += level.begin * level.step;
    if (level.count == 1) continue;
    if (!out.empty() && out.back().step == level.count * level.step) {
      out.back().count *= level.count;
      out.back().step = level.step;
    } else {
      out.push_back({0, level.count, level.step});
    }
  }
  return out;
}

std::string run_text(std::int64_t begin, std::int64_t length) {
  return length == 1 ? std::to_string(begin) : fmt::format("{}-{}", begin, begin + length - 1);
}

std::string indices_text(const Indices& levels, std::int64_t length) {
  constexpr std::int64_t kShown = 3;
  std::int64_t begin = 0;
  Indices rest = simplified(levels, begin);
  std::int64_t run = 1;
  if (!rest.empty() && rest.back().step == 1) {
    run = rest.back().count;
    rest.pop_back();
  }
  if (rest.empty()) return run == length ? "all" : run_text(begin, run);
  if (rest.size() > 1) {
    std::vector<std::string> texts;
    for (const Level& level : rest)
      texts.push_back(fmt::format("{} x every {}", level.count, level.step));
    return fmt::format("{} and on, {}", run_text(begin, run), fmt::join(texts, ", "));
  }
  const Level& outer = rest.front();
  const std::int64_t shown = outer.count == kShown + 1 ? outer.count : kShown;
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < std::min(outer.count, shown); ++i) {
    texts.push_back(run_text(begin + i * outer.step, run));
  }
  if (outer.count > shown) {
    texts.push_back("... " + run_text(begin + (outer.count - 1) * outer.step, run));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Whether the tensor has them in another order than the source: the coarser level comes later.
bool is_reordered(const Indices& levels) {
  std::int64_t before = 0;
  for (const Level& level : levels) {
    if (level.count == 1) continue;
    if (before != 0 && level.step > before) return true;
    before = level.step;
  }
  return false;
}

/// The first of them, in the order in which the tensor has them: "0, 2, 4, 6, ...".
std::string ordered_text(const Indices& levels) {
  constexpr std::int64_t kLookedAt = 4096;
  constexpr std::size_t kShown = 6;
  std::vector<std::string> texts;
  std::int64_t total = 1;
  for (const Level& level : levels) total *= level.count;
  std::int64_t begin = 0;
  std::int64_t length = 0;
  std::int64_t number = 0;
  for (; number < std::min(total, kLookedAt) && texts.size() < kShown; ++number) {
    std::int64_t index = 0;
    std::int64_t rest = number;
    for (std::size_t i = levels.size(); i-- > 0;) {
      index += (levels[i].begin + rest % levels[i].count) * levels[i].step;
      rest /= levels[i].count;
    }
    if (length > 0 && index == begin + length) {
      ++length;
      continue;
    }
    if (length > 0) texts.push_back(run_text(begin, length));
    begin = index;
    length = 1;
  }
  if (texts.size() < kShown && number == total) {
    texts.push_back(run_text(begin, length));
  } else {
    texts.emplace_back("...");
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string dimensions_text(const std::vector<Indices>& dimensions, const Shape& shape) {
  std::vector<std::string> texts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    texts.push_back(is_reordered(dimensions[d]) ? ordered_text(dimensions[d])
                                                : indices_text(dimensions[d], shape[d]));
  }
  return fmt::format("[{}]", fmt::join(texts, " | "));
}

/// The box in the tensor, by dimension.
std::vector<Indices> target_indices(const NormalForm& form, const FormTerm& box) {
  std::vector<Indices> dimensions;
  std::size_t axis = 0;
  for (const std::vector<std::int64_t>& factors : form.factors) {
    Indices& levels = dimensions.emplace_back();
    std::int64_t behind = 1;
    for (const std::int64_t factor : factors) behind *= factor;
    for (const std::int64_t factor : factors) {
      behind /= factor;
      levels.push_back({box.axes[axis].begin, box.axes[axis].length(), behind});
      ++axis;
    }
  }
  return dimensions;
}

/// The box in its source; nothing if it does not go along dimensions.
struct SourceIndices {
  std::vector<Indices> dimensions;
  bool is_repeated = false;
  bool is_turned = false;  ///< dimensions in another order than in the tensor
};

/// @param dimensions that each axis of the box belongs to.
std::optional<SourceIndices> source_indices(const FormTerm& box, const Shape& shape,
                                            const std::vector<std::size_t>& dimensions) {
  SourceIndices out;
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  for (std::size_t d = 0; d < shape.size(); ++d) {
    out.dimensions.push_back({{box.base / strides[d] % shape[d], 1, 1}});
  }
  for (std::size_t i = 0; i < box.axes.size(); ++i) {
    const TermAxis& axis = box.axes[i];
    if (axis.length() == 1) continue;
    if (axis.stride == 0) {
      out.is_repeated = true;
      continue;
    }
    for (std::size_t k = 0; k < i; ++k) {
      const TermAxis& outer = box.axes[k];
      const bool rises = outer.length() > 1 && outer.stride > 0 && outer.stride < axis.stride;
      if (rises && dimensions[k] != dimensions[i]) out.is_turned = true;
    }
    // One axis may go over several dimensions.
    const auto loops = along_dimensions(axis.length(), axis.stride, shape);
    if (!loops) return std::nullopt;
    for (std::size_t l = loops->size(); l-- > 0;) {
      const DimensionLoop& loop = (*loops)[l];
      out.dimensions[loop.dimension].push_back({0, loop.count, loop.step});
    }
  }
  return out;
}

std::string literal_text(const FormTerm& box) {
  return box.source == FormTerm::kInteger ? fmt::format("the value {}", box.base)
                                          : std::string("a value");
}

std::string box_source_text(const FormTerm& box, const std::vector<std::size_t>& dimensions,
                            const std::function<FormSource(std::size_t)>& source) {
  if (box.is_literal()) return literal_text(box);
  const FormSource from = source(static_cast<std::size_t>(box.source));
  const auto indices = source_indices(box, from.shape, dimensions);
  if (!indices) {
    return fmt::format("{}, {} elements from element {} on", printable(from.name), box.elements(),
                       box.base);
  }
  std::string text = printable(from.name) + " " + dimensions_text(indices->dimensions, from.shape);
  if (std::any_of(indices->dimensions.begin(), indices->dimensions.end(), is_reordered)) {
    text += ", in this order";
  }
  if (indices->is_turned) text += ", transposed";
  if (indices->is_repeated) text += ", repeated";
  return text;
}

}  // namespace

std::string form_picture(const NormalForm& form,
                         const std::function<FormSource(std::size_t)>& source, std::size_t most) {
  TextTable table({"INDICES " + to_string(form.shape), "COME FROM"});
  std::vector<const FormTerm*> boxes;
  for (const FormTerm& box : form.boxes) boxes.push_back(&box);
  // In the order in which the tensor has their first elements.
  std::sort(boxes.begin(), boxes.end(), [](const auto* a, const auto* b) {
    return std::lexicographical_compare(
        a->axes.begin(), a->axes.end(), b->axes.begin(), b->axes.end(),
        [](const auto& x, const auto& y) { return x.begin < y.begin; });
  });
  std::vector<std::size_t> dimensions;
  for (std::size_t d = 0; d < form.factors.size(); ++d) {
    dimensions.insert(dimensions.end(), form.factors[d].size(), d);
  }
  for (std::size_t i = 0; i < boxes.size() && i < most; ++i) {
    table.add_row({dimensions_text(target_indices(form, *boxes[i]), form.shape),
                   box_source_text(*boxes[i], dimensions, source)});
  }
  if (boxes.size() > most) {
    table.add_line(fmt::format("... and {} more", boxes.size() - most));
  }
  return table.str();
}

}  // namespace reshardfs
