// SPDX-License-Identifier: Apache-2.0
#include "strategy/guess_words.h"

#include <set>

namespace reshardfs {

std::size_t distinct_contents(const std::vector<std::uint32_t>& contents) {
  return std::set<std::uint32_t>(contents.begin(), contents.end()).size();
}

std::string contents_words(const SlicedParameter& parameter) {
  const std::size_t found = distinct_contents(parameter.slices.contents);
  const std::string ranks = std::to_string(parameter.slices.contents.size()) + " ranks";
  if (found > 1) return std::to_string(found) + " different ones on " + ranks;
  return (parameter.slices.is_constant() ? "of one value and equal on all " : "equal on all ") +
         ranks;
}

std::string slice_words(const SlicedParameter& parameter) {
  const DeviceSlices& slices = parameter.slices;
  if (slices.has_one_shape()) return "slices of " + to_string(slices.shapes.front());
  return "slices of " + to_string(slices.shapes.front()) + " to " + to_string(slices.shapes.back());
}

std::string reading_with_slices(const Reading& reading, const SlicedParameter& parameter) {
  return reading_words(reading) + " (" + slice_words(parameter) + ", " + contents_words(parameter) +
         ")";
}

std::string reading_words(const Reading& reading) {
  if (reading.is_whole()) return "whole";
  std::int64_t parts = 1;
  std::string dimensions;
  for (std::size_t d = 0; d < reading.splits.size(); ++d) {
    if (reading.splits[d] == 1) continue;
    parts *= reading.splits[d];
    dimensions += (dimensions.empty() ? " along dimension " : " and ") + std::to_string(d);
  }
  const bool uneven = !reading.layout.uneven.empty();
  return (uneven ? "one of " + std::to_string(parts) + " parts of "
                 : "1/" + std::to_string(parts) + " of ") +
         to_string(reading.full_shape) + dimensions +
         (reading.layout.optimizer_shard_size != 0 ? " with an optimizer cut" : "");
}

}  // namespace reshardfs
