// SPDX-License-Identifier: Apache-2.0
#include "cli/form_picture.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reshardfs/error.h"

#include "base/text.h"
#include "cli/text.h"

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
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < std::min(outer.count, kShown); ++i) {
    texts.push_back(run_text(begin + i * outer.step, run));
  }
  if (outer.count > kShown) {
    texts.push_back("... " + run_text(begin + (outer.count - 1) * outer.step, run));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string dimensions_text(const std::vector<Indices>& dimensions, const Shape& shape) {
  std::vector<std::string> texts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    texts.push_back(indices_text(dimensions[d], shape[d]));
  }
  return fmt::format("[{}]", fmt::join(texts, " | "));
}

/// The box in the tensor, by dimension.
std::vector<Indices> target_indices(const modelmap::NormalForm& form, const modelmap::Box& box) {
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

std::optional<SourceIndices> source_indices(const modelmap::Box& box, const Shape& shape) {
  SourceIndices out;
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  for (std::size_t d = 0; d < shape.size(); ++d) {
    out.dimensions.push_back({{box.base / strides[d] % shape[d], 1, 1}});
  }
  std::int64_t before = 0;
  for (const modelmap::BoxAxis& axis : box.axes) {
    if (axis.length() == 1) continue;
    if (axis.stride == 0) {
      out.is_repeated = true;
      continue;
    }
    if (before != 0 && axis.stride > before) out.is_turned = true;
    before = axis.stride;
    // One axis may go over several dimensions.
    std::int64_t count = axis.length();
    std::int64_t stride = axis.stride;
    while (count > 1) {
      std::size_t d = 0;
      while (d < shape.size() && (shape[d] == 1 || strides[d] > stride)) ++d;
      if (d == shape.size() || stride % strides[d] != 0) return std::nullopt;
      const std::int64_t step = stride / strides[d];
      const std::int64_t fitting = shape[d] / step;
      const std::int64_t here = std::min(count, fitting);
      if (here < count && (shape[d] % step != 0 || count % fitting != 0)) return std::nullopt;
      out.dimensions[d].push_back({0, here, step});
      count /= here;
      stride = strides[d] * shape[d];
    }
  }
  return out;
}

std::string literal_text(const modelmap::Box& box) {
  return box.source == modelmap::Box::kInteger ? fmt::format("the value {}", box.base)
                                               : std::string("a value");
}

std::string box_source_text(const modelmap::Box& box,
                            const std::function<FormSource(std::size_t)>& source) {
  if (box.is_literal()) return literal_text(box);
  const FormSource from = source(static_cast<std::size_t>(box.source));
  const auto indices = source_indices(box, from.shape);
  if (!indices) {
    return fmt::format("{}, {} elements from element {} on", printable(from.name), box.elements(),
                       box.base);
  }
  std::string text = printable(from.name) + " " + dimensions_text(indices->dimensions, from.shape);
  if (indices->is_turned) text += ", transposed";
  if (indices->is_repeated) text += ", repeated";
  return text;
}

}  // namespace

std::string form_picture(const modelmap::NormalForm& form,
                         const std::function<FormSource(std::size_t)>& source, std::size_t most) {
  TextTable table({"INDICES " + to_string(form.shape), "COME FROM"});
  std::vector<const modelmap::Box*> boxes;
  for (const modelmap::Box& box : form.boxes) boxes.push_back(&box);
  // In the order in which the tensor has their first elements.
  std::sort(boxes.begin(), boxes.end(), [](const auto* a, const auto* b) {
    return std::lexicographical_compare(
        a->axes.begin(), a->axes.end(), b->axes.begin(), b->axes.end(),
        [](const auto& x, const auto& y) { return x.begin < y.begin; });
  });
  for (std::size_t i = 0; i < boxes.size() && i < most; ++i) {
    table.add_row({dimensions_text(target_indices(form, *boxes[i]), form.shape),
                   box_source_text(*boxes[i], source)});
  }
  if (boxes.size() > most) {
    table.add_line(fmt::format("... and {} more", boxes.size() - most));
  }
  return table.str();
}

}  // namespace reshardfs
