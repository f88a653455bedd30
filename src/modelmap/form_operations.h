// SPDX-License-Identifier: Apache-2.0
/// The operations on normal forms. None of them looks at elements: the cost is that of boxes and
/// axes.
///
/// Each throws Error kBadInput, with the shapes, if it is not possible, and kUnsupported if the
/// result exceeds a limit (dimensions, axes, boxes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layout/normal_form.h"

namespace reshardfs::modelmap {

/// [start, stop) of a dimension, every `step`-th index.
struct StepRange {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
};

/// @param shape one dimension may be -1: what is left.
NormalForm reshape(NormalForm form, Shape shape);
/// Dimension i of the result is dimension order[i] of the operand.
NormalForm permute(NormalForm form, const std::vector<std::int64_t>& order);
NormalForm slice(NormalForm form, std::int64_t dimension, const StepRange& range);
/// Part `part` of `parts` equal ones; the dimension stays.
NormalForm split(NormalForm form, std::int64_t dimension, std::int64_t parts, std::int64_t part);
/// One index of a dimension, which vanishes.
NormalForm take(NormalForm form, std::int64_t dimension, std::int64_t index);
/// Each index `times` times in sequence.
NormalForm repeat(NormalForm form, std::int64_t dimension, std::int64_t times);
/// One after the other along a dimension.
NormalForm concat(std::vector<NormalForm> forms, std::int64_t dimension);
/// Along a new dimension.
NormalForm stack(std::vector<NormalForm> forms, std::int64_t dimension);
/// Elements of `value` behind the others, until the dimension has this length.
NormalForm pad(NormalForm form, std::int64_t dimension, std::int64_t length, const Literal& value);

/// The part of a tensor that lies within [begin, end) of each dimension: what a strategy leaves a
/// device.
/// @param ranges one for each dimension
NormalForm cut(NormalForm form, const std::vector<StepRange>& ranges);

/// Merges what can be merged without making more boxes, and checks the limits. Each operation does
/// so with its result.
NormalForm tidy(NormalForm form);

}  // namespace reshardfs::modelmap
