// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules/rules_placements.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "base/text/utf8.h"
#include "strategy/rules/rules_cuts.h"

namespace reshardfs {
namespace {

constexpr std::size_t kLineWidth = 100;

/// What stands before the first ".<digits>." of a name, without an optimizer's prefix: "model.
/// layers.". Empty if there is no such number.
std::string text_before_number(const std::string& name) {
  const std::string weight = weight_name_of(name);
  for (std::size_t dot = weight.find('.'); dot != std::string::npos;
       dot = weight.find('.', dot + 1)) {
    const std::size_t next = weight.find_first_not_of("0123456789", dot + 1);
    if (next != std::string::npos && next > dot + 1 && weight[next] == '.') {
      return weight.substr(0, dot + 1);
    }
  }
  return {};
}

std::vector<LayerPlacement> candidates(const Strategy& strategy) {
  std::set<std::string> texts;
  for (std::int64_t stage = 0; stage < strategy.stage_count(); ++stage) {
    for (const auto& item : strategy.stage(stage)) texts.insert(text_before_number(item.first));
  }
  std::vector<LayerPlacement> placements;
  for (const std::string& text : texts) {
    // A second {n} would be taken for the number.
    if (text.empty() || text.find("{n}") != std::string::npos) continue;
    placements.emplace_back();
    placements.back().before = text;
    placements.back().after = ".";
  }
  // "encoder.layers." before "layers.", which is found in the same names.
  std::stable_sort(placements.begin(), placements.end(),
                   [](const auto& a, const auto& b) { return a.before.size() > b.before.size(); });
  return placements;
}

/// The stages of the layers of each placement; a placement is erased if it cannot say them.
/// @return whether all could.
bool fill(std::vector<LayerPlacement>& placements, const Strategy& strategy) {
  std::set<const LayerPlacement*> wrong;
  for (LayerPlacement& placement : placements) placement.stage_of_layer.clear();
  for (std::int64_t stage = 0; stage < strategy.stage_count(); ++stage) {
    for (const auto& item : strategy.stage(stage)) {
      const std::string& name = item.first;
      for (LayerPlacement& placement : placements) {
        const std::optional<std::int64_t> layer = placement.layer_of(name);
        if (!layer) continue;
        if (*layer >= kMaxLayers) wrong.insert(&placement);
        // A parameter of several stages has a rule that states them.
        if (*layer >= kMaxLayers || strategy.stages_of(name).size() > 1) break;
        const auto index = static_cast<std::size_t>(*layer);
        auto& stages = placement.stage_of_layer;
        if (index >= stages.size()) stages.resize(index + 1, -1);
        if (stages[index] != -1 && stages[index] != stage) wrong.insert(&placement);
        stages[index] = stage;
        break;
      }
    }
  }
  for (const LayerPlacement& placement : placements) {
    // A single number is hardly one of layers; its rule can say the stage.
    if (std::count_if(placement.stage_of_layer.begin(), placement.stage_of_layer.end(),
                      [](std::int64_t stage) { return stage != -1; }) < 2) {
      wrong.insert(&placement);
    }
  }
  // Addresses change with the first that is erased, so what stays is copied.
  std::vector<LayerPlacement> right;
  for (const LayerPlacement& placement : placements) {
    if (!wrong.contains(&placement)) right.push_back(placement);
  }
  placements = std::move(right);
  return wrong.empty();
}

}  // namespace

std::vector<LayerPlacement> placements_of(const Strategy& strategy) {
  if (strategy.stage_count() == 1) return {};
  std::vector<LayerPlacement> placements = candidates(strategy);
  // Names of an erased placement may be found by another.
  while (!fill(placements, strategy)) continue;
  return placements;
}

std::vector<std::int64_t> placed_stages(const std::vector<LayerPlacement>& placements,
                                        const std::string& name, std::int64_t stage_count) {
  for (const LayerPlacement& placement : placements) {
    const std::optional<std::int64_t> layer = placement.layer_of(name);
    if (!layer) continue;
    const auto& stages = placement.stage_of_layer;
    if (*layer >= static_cast<std::int64_t>(stages.size())) return {-1};
    return {stages[static_cast<std::size_t>(*layer)]};
  }
  std::vector<std::int64_t> all;
  for (std::int64_t stage = 0; stage < stage_count; ++stage) all.push_back(stage);
  return all;
}

std::string placement_text(const LayerPlacement& placement, std::int64_t stage_count) {
  std::vector<std::vector<std::int64_t>> layers(static_cast<std::size_t>(stage_count));
  const auto& stages = placement.stage_of_layer;
  for (std::size_t layer = 0; layer < stages.size(); ++layer) {
    if (stages[layer] < 0) continue;
    layers[static_cast<std::size_t>(stages[layer])].push_back(static_cast<std::int64_t>(layer));
  }
  std::vector<std::int64_t> counts;
  std::string lists;
  for (const auto& list : layers) {
    counts.push_back(static_cast<std::int64_t>(list.size()));
    lists += (lists.empty() ? "" : ", ") + number_list(list);
  }
  const bool in_order = std::is_sorted(stages.begin(), stages.end()) && stages.front() >= 0;
  return "[[layers]]\nmatch = " + toml_string(placement.before + "{n}" + placement.after) + "\n" +
         (in_order ? "split = " + number_list(counts) : "stages = [" + lists + "]") + "\n";
}

void check_rule_name(const std::string& name) {
  if (name.empty()) throw Error(ErrorKind::kUnsupported, "rules cannot match an empty name");
  if (!is_utf8(name) || name.find('\0') != std::string::npos) {
    throw Error(ErrorKind::kUnsupported, "rules cannot hold the name '" + printable(name) +
                                             "', which is not UTF-8 or has a NUL in it");
  }
}

std::string globs_value(const std::vector<std::string>& globs) {
  std::vector<std::string> values;
  std::string lines;
  for (const std::string& glob : globs) {
    values.push_back(toml_string(glob));
    lines += "  " + values.back() + ",\n";
  }
  if (values.size() == 1) return values.front();
  std::string line = value_list(values);
  return line.size() + std::string("match = ").size() <= kLineWidth ? line : "[\n" + lines + "]";
}

}  // namespace reshardfs
