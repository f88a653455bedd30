// SPDX-License-Identifier: Apache-2.0
#include "guess/guess_words.h"

#include <algorithm>
#include <set>

#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr std::size_t kShownDevices = 8;

}  // namespace

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

std::string slice_and_content_words(const SlicedParameter& parameter) {
  return slice_words(parameter) + ", " + contents_words(parameter);
}

std::string reading_with_slices(const Reading& reading, const SlicedParameter& parameter) {
  return reading_words(reading) + " (" + slice_and_content_words(parameter) + ")";
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

std::string order_words(const Reading& reading) {
  std::string ranks;
  std::string parts;
  const std::size_t shown = std::min(reading.parts.size(), kShownDevices);
  for (std::size_t device = 0; device < shown; ++device) {
    ranks += (device == 0 ? "" : ", ") + std::to_string(device);
    parts += (device == 0 ? "" : ", ") + std::to_string(reading.parts[device]);
  }
  const std::string more = shown < reading.parts.size() ? ", ..." : "";
  return "ranks " + ranks + more + " of a stage hold parts " + parts + more;
}

std::string settling_words(const std::vector<Reading>& readings, std::size_t number) {
  const Shape& own = readings[number].full_shape;
  const auto same = std::count_if(readings.begin(), readings.end(), [&](const Reading& reading) {
    return reading.full_shape == own;
  });
  std::string text = "settled by ";
  if (same < static_cast<std::ptrdiff_t>(readings.size())) {
    text += "the shape " + to_string(own) + " in config.json";
    if (same == 1) return text;
    text += ", and by ";
  }
  return text + "one whole tensor of the model, or a loss measured with this rule";
}

std::string way_words(const KnownParameter& known) {
  const std::string dimension = "along dimension " + std::to_string(known.usual_cut);
  switch (known.role) {
    case ParameterRole::kProjection:
    case ParameterRole::kVector:
      return dimension + " over one axis" +
             (known.usual_cut == 0 ? "" : ", and by the optimizer along dimension 0");
    case ParameterRole::kEmbedding:
      return dimension + " over one axis, or not";
    case ParameterRole::kExperts:
    case ParameterRole::kCounter:
    case ParameterRole::kOther:
      break;
  }
  return "by the optimizer alone, along dimension 0";
}

std::string axis_words(const DeviceAxis& axis) {
  if (axis.size == 1) return "1";
  constexpr std::int64_t kShown = 4;
  std::string text;
  for (std::int64_t i = 0; i < std::min(axis.size, kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(i * axis.stride);
  }
  return text + (axis.size > kShown ? ", ..." : "");
}

std::string summary_words(const Guess& guess) {
  const std::size_t all = guess.parameters.size();
  return std::to_string(guess.count(Certainty::kProven)) + " of " + counted(all, "parameter") +
         " proven, " + std::to_string(guess.count(Certainty::kOneOf)) + " one of several, " +
         std::to_string(guess.count(Certainty::kOpen)) + " open";
}

}  // namespace reshardfs
