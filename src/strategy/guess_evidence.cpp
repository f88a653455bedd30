// SPDX-License-Identifier: Apache-2.0
#include "strategy/guess_evidence.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/state_names.h"

namespace reshardfs {
namespace {

constexpr int kOdd = kUsual + 1;

std::int64_t part_count(const Reading& reading) {
  return std::accumulate(reading.splits.begin(), reading.splits.end(), std::int64_t{1},
                         std::multiplies<>());
}

bool is_matrix(const Evidence& evidence) {
  return evidence.known != nullptr && evidence.known->role == ParameterRole::kProjection &&
         !evidence.readings.empty() && !evidence.is_padded &&
         evidence.parameter->slices.has_one_shape();
}

template <typename Test>
bool all_readings(const Evidence& evidence, const Test& test) {
  return !evidence.readings.empty() &&
         std::all_of(evidence.readings.begin(), evidence.readings.end(), test);
}

/// The devices that cut the only dimension that is cut; empty if there is none, or several.
DeviceGroup only_group(const Reading& reading) {
  DeviceGroup group;
  for (const std::vector<int>& axes : reading.layout.tensor_map) {
    if (axes.empty()) continue;
    if (!group.empty()) return {};
    group = group_of(reading.layout, axes);
  }
  return group;
}

/// What the weights of a set, or its states, show of optimizer cuts.
struct OptimizerSigns {
  bool uncut = false;  ///< a matrix that could be cut is not
  bool cut = false;  ///< something is cut along dimension 0 that tensor parallelism does not cut so
  /// The devices that tensor parallelism cuts matrices over; empty if they are not known, or are
  /// not the same for all.
  DeviceGroup tensor{};
};

OptimizerSigns signs_of(const std::vector<Evidence>& cases, bool states, std::int64_t devices) {
  OptimizerSigns signs;
  std::map<std::string, DeviceGroup> groups;
  for (const Evidence& evidence : cases) {
    if (evidence.is_state != states || evidence.known == nullptr) continue;
    const auto whole_rows = [](const Reading& reading) { return reading.splits.front() == 1; };
    const bool is_cut =
        all_readings(evidence, [](const Reading& reading) { return reading.splits.front() > 1; });
    if (is_cut && evidence.known->usual_cut != 0 &&
        evidence.known->role != ParameterRole::kExperts) {
      signs.cut = true;
    }
    if (!is_matrix(evidence) || !all_readings(evidence, whole_rows)) continue;
    signs.uncut = signs.uncut || all_readings(evidence, [&](const Reading& reading) {
                    const std::int64_t copies = devices / part_count(reading);
                    return copies > 1 && reading.full_shape.front() % copies == 0;
                  });
    if (evidence.readings.size() != 1) continue;
    const DeviceGroup group = only_group(evidence.readings.front());
    if (!group.empty()) groups.insert_or_assign(to_string(evidence.readings.front().layout), group);
  }
  const auto is_first = [&](const auto& item) { return item.second == groups.begin()->second; };
  const bool one_group = !groups.empty() && std::all_of(groups.begin(), groups.end(), is_first);
  if (one_group) signs.tensor = groups.begin()->second;
  return signs;
}

/// Keys and values may have fewer heads than there are ranks: then they are cut over some of them,
/// and their copies may be cut by the optimizer.
bool has_indivisible_units(const Evidence& evidence, std::int64_t devices) {
  return evidence.known != nullptr && evidence.known->units % devices != 0;
}

DeviceGroup inner_group(std::int64_t size) {
  return {DeviceAxis{1, size}};
}

DeviceGroup most_frequent(const std::vector<DeviceGroup>& groups) {
  DeviceGroup best;
  std::ptrdiff_t most = 0;
  for (const DeviceGroup& group : groups) {
    const auto uses = std::count(groups.begin(), groups.end(), group);
    if (uses > most) {
      most = uses;
      best = group;
    }
  }
  return best;
}

std::int64_t content_count(const DeviceSlices& slices) {
  const std::set<std::uint32_t> all(slices.contents.begin(), slices.contents.end());
  return static_cast<std::int64_t>(all.size());
}

/// Where shapes say nothing: the innermost or outermost devices that differ.
DeviceGroup group_by_content(const DeviceSlices& slices, std::int64_t devices) {
  const std::int64_t count = content_count(slices);
  if (count < 2 || devices % count != 0 || !slices.has_one_shape()) return {};
  const auto fits = [&](std::int64_t stride) {
    for (std::int64_t device = 0; device < devices; ++device) {
      const auto part = static_cast<std::size_t>((device / stride) % count);
      const auto first = part * static_cast<std::size_t>(stride);
      if (slices.contents[static_cast<std::size_t>(device)] != slices.contents[first]) return false;
    }
    return true;
  };
  if (fits(1)) return inner_group(count);
  if (fits(devices / count)) return {DeviceAxis{devices / count, count}};
  return {};
}

bool is_weight_matrix(const Evidence& evidence) {
  return evidence.known != nullptr && !evidence.is_state &&
         evidence.known->role == ParameterRole::kProjection;
}

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

bool is_proven(const GuessedParameter& parameter) {
  return parameter.certainty == Certainty::kProven;
}

/// Of each dimension that is cut.
std::vector<DeviceGroup> groups_of(const Reading& reading) {
  std::vector<DeviceGroup> groups;
  for (const std::vector<int>& axes : reading.layout.tensor_map) {
    if (!axes.empty()) groups.push_back(group_of(reading.layout, axes));
  }
  return groups;
}

/// Whether a device matrix with axes of these bounds has several axes for the group.
bool is_divided(const DeviceGroup& group, const std::set<std::int64_t>& bounds) {
  if (group.size() != 1) return true;
  const std::int64_t begin = group.front().stride;
  const std::int64_t end = begin * group.front().size;
  return std::any_of(bounds.begin(), bounds.end(), [&](std::int64_t bound) {
    return bound > begin && bound < end && bound % begin == 0 && end % bound == 0;
  });
}

}  // namespace

void Evidence::add(const Readings& more) {
  fitting += more.fitting;
  too_many = too_many || more.too_many;
  readings.insert(readings.end(), more.left.begin(), more.left.end());
}

bool Evidence::does_not_fit() const {
  const bool shape_is_known = known != nullptr && !known->shapes.empty();
  const bool looked = parameter->slices.dimensions() > 0 && parameter->slices.contents.size() > 1;
  return shape_is_known && looked && fitting == 0 && !too_many;
}

bool Evidence::only_repeats() const {
  if (known == nullptr || known->role == ParameterRole::kEmbedding) return false;
  return all_readings(*this,
                      [&](const Reading& reading) { return repeats(reading, parameter->slices); });
}

void exclude_optimizer_cuts(std::vector<Evidence>& cases, std::int64_t devices) {
  const OptimizerSigns weights = signs_of(cases, false, devices);
  const OptimizerSigns states = signs_of(cases, true, devices);
  for (Evidence& evidence : cases) {
    const OptimizerSigns& own = evidence.is_state ? states : weights;
    if (own.cut) continue;
    const DeviceGroup& tensor = own.tensor.empty() && !weights.cut ? weights.tensor : own.tensor;
    const bool is_cut_alike = !tensor.empty() && evidence.known != nullptr &&
                              evidence.known->role != ParameterRole::kExperts &&
                              !has_indivisible_units(evidence, device_count(tensor));
    std::erase_if(evidence.readings, [&](const Reading& reading) {
      if (!reading.optimizer) return false;
      const std::int64_t mapped = part_count(reading) / reading.layout.optimizer_shard_size;
      return own.uncut || (is_cut_alike && mapped < device_count(tensor));
    });
  }
}

DeviceGroup usual_group(const std::vector<Evidence>& cases, std::int64_t devices) {
  std::vector<DeviceGroup> sure;
  std::vector<DeviceGroup> by_shape;
  std::vector<DeviceGroup> by_content;
  for (const Evidence& evidence : cases) {
    if (!is_weight_matrix(evidence)) continue;
    if (evidence.readings.size() == 1) {
      const DeviceGroup group = only_group(evidence.readings.front());
      if (!group.empty()) sure.push_back(group);
    }
    for (const Reading& reading : evidence.readings) {
      for (std::size_t d = 1; d < reading.splits.size(); ++d) {
        const DeviceGroup inner = inner_group(reading.splits[d]);
        const bool is_inner = reading.splits[d] > 1 &&
                              group_of(reading.layout, reading.layout.tensor_map[d]) == inner;
        if (is_inner) by_shape.push_back(inner);
      }
    }
    DeviceGroup group = group_by_content(evidence.parameter->slices, devices);
    if (!group.empty()) by_content.push_back(std::move(group));
  }
  for (const auto* groups : {&sure, &by_shape, &by_content}) {
    if (!groups->empty()) return most_frequent(*groups);
  }
  return {};
}

int oddness(const Reading& reading, const DeviceGroup& usual) {
  const bool by_optimizer = reading.layout.optimizer_shard_size != 0;
  if (reading.is_whole()) return 0;
  const DeviceGroup group = only_group(reading);
  const auto devices = static_cast<std::int64_t>(reading.parts.size());
  if (!group.empty() && group == usual) return by_optimizer ? 1 : 0;
  if (part_count(reading) == devices && group == inner_group(devices)) return kUsual;
  // Beside the usual devices those along dimension 0 do what an optimizer cut does.
  for (std::size_t d = 1; d < reading.splits.size(); ++d) {
    const auto& map = reading.layout.tensor_map;
    const bool usual_here = !map[d].empty() && group_of(reading.layout, map[d]) == usual;
    if (usual_here && cuts_only(reading, d)) return 1;
  }
  return kOdd + static_cast<int>(reading.layout.device_matrix.size()) + (by_optimizer ? 1 : 0);
}

bool cuts_only(const Reading& reading, std::size_t dimension) {
  for (std::size_t d = 1; d < reading.splits.size(); ++d) {
    if (d != dimension && reading.splits[d] > 1) return false;
  }
  return dimension < reading.splits.size() && reading.splits[dimension] > 1;
}

std::vector<Reading> readings_by_content(const DeviceSlices& slices, std::int64_t devices,
                                         const DeviceGroup& usual) {
  const Shape& slice = slices.shapes.front();
  const std::int64_t contents = content_count(slices);
  const std::int64_t usual_parts = usual.empty() ? devices : device_count(usual);
  const std::int64_t parts = contents == 1 ? usual_parts : contents;
  std::vector<Reading> found;
  const auto add = [&](const Shape& full) {
    std::vector<Reading> left = readings_of(devices, slices, full).left;
    if (contents == 1) {
      std::erase_if(left, [&](const auto& reading) { return oddness(reading, usual) > kUsual; });
    }
    std::move(left.begin(), left.end(), std::back_inserter(found));
  };
  if (contents == 1) add(slice);
  for (std::size_t d = 0; d < slice.size(); ++d) {
    Shape full = slice;
    full[d] *= parts;
    add(full);
    if (d == 0 || parts % usual_parts != 0 || parts == usual_parts) continue;
    full = slice;
    full[0] *= parts / usual_parts;
    full[d] *= usual_parts;
    add(full);
  }
  return found;
}

std::vector<std::size_t> cut_over_several_axes(const std::vector<Evidence>& cases,
                                               const std::vector<GuessedParameter>& parameters,
                                               std::int64_t devices) {
  std::set<std::int64_t> bounds;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    // Keys of fewer heads than ranks say nothing about how others are cut.
    if (!is_proven(parameters[i]) || has_indivisible_units(cases[i], devices)) continue;
    for (const DeviceGroup& group : groups_of(parameters[i].readings.front())) {
      for (const DeviceAxis& axis : group) {
        bounds.insert(axis.stride);
        bounds.insert(axis.stride * axis.size);
      }
    }
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!is_proven(parameters[i])) continue;
    const std::vector<DeviceGroup> groups = groups_of(parameters[i].readings.front());
    const auto several = [&](const DeviceGroup& group) { return is_divided(group, bounds); };
    if (std::any_of(groups.begin(), groups.end(), several)) found.push_back(i);
  }
  return found;
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
