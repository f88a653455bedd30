// SPDX-License-Identifier: Apache-2.0
#include "guess/guess_evidence.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text/state_names.h"

namespace reshardfs {
namespace {

/// The text before the number of a layer, and the number.
std::pair<std::string, std::string> layer_of(const std::string& name) {
  const std::string weight = weight_name_of(name);
  for (std::size_t dot = weight.find('.'); dot != std::string::npos;
       dot = weight.find('.', dot + 1)) {
    const std::size_t end = weight.find_first_not_of("0123456789", dot + 1);
    if (end != std::string::npos && end > dot + 1 && weight[end] == '.') {
      return {weight.substr(0, dot), weight.substr(dot + 1, end - dot - 1)};
    }
  }
  return {};
}

}  // namespace

bool Evidence::does_not_fit() const {
  const bool looked = parameter->slices.dimensions() > 0 && parameter->slices.contents.size() > 1;
  return shape_is_known() && looked && !readings.fits && !readings.too_many;
}

bool Evidence::only_repeats() const {
  if (!shape_is_known() || known->role == ParameterRole::kEmbedding) return false;
  return !readings.left.empty() && !readings.too_many &&
         std::all_of(readings.left.begin(), readings.left.end(),
                     [&](const Reading& reading) { return repeats(reading, parameter->slices); });
}

bool nothing_differs(const std::vector<Evidence>& cases) {
  bool any_cut = false;
  for (const Evidence& evidence : cases) {
    const DeviceSlices& slices = evidence.parameter->slices;
    if (slices.differ() || !slices.has_one_shape()) return false;
    const auto is_whole = [](const Reading& reading) { return reading.is_whole(); };
    const std::vector<Reading>& readings = evidence.readings.left;
    any_cut = any_cut || (evidence.shape_is_known() && evidence.readings.fits &&
                          std::none_of(readings.begin(), readings.end(), is_whole));
  }
  return any_cut;
}

LayerCount count_layers(const SlicedSet& set) {
  std::map<std::string, std::map<std::string, const std::vector<std::int64_t>*>> layers;
  LayerCount found;
  for (const SlicedParameter& parameter : set.parameters) {
    const auto [prefix, number] = layer_of(parameter.name);
    if (number.empty()) continue;
    const auto [layer, is_new] = layers[prefix].try_emplace(number, &parameter.stages);
    if (*layer->second != parameter.stages || parameter.stages.size() > 1) {
      if (set.stages > 1) found.misplaced.push_back(parameter.name);
    }
  }
  for (const auto& prefix : layers) found.count = std::max(found.count, prefix.second.size());
  return found;
}

}  // namespace reshardfs
