// SPDX-License-Identifier: Apache-2.0
#include "strategy/derive/derive_stages.h"

#include <algorithm>
#include <optional>
#include <set>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/state_names.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr const char* kUseRules = "write rules for the target instead: see reshardfs-strategy(5)";

struct LayerName {
  std::string prefix;  ///< "model.layers."
  std::int64_t number = 0;
};

/// The first ".<digits>." in a name.
std::optional<LayerName> layer_of(const std::string& name) {
  const std::string weight = weight_name_of(name);
  for (std::size_t dot = weight.find('.'); dot != std::string::npos;
       dot = weight.find('.', dot + 1)) {
    const std::size_t next = weight.find('.', dot + 1);
    if (next == std::string::npos) break;
    const auto number = parse_number(std::string_view(weight).substr(dot + 1, next - dot - 1));
    if (number) return LayerName{weight.substr(0, dot + 1), *number};
  }
  return std::nullopt;
}

std::set<std::string> all_names(const Strategy& source) {
  std::set<std::string> names;
  for (std::int64_t stage = 0; stage < source.stage_count(); ++stage) {
    for (const auto& item : source.stage(stage)) names.insert(item.first);
  }
  return names;
}

/// The layers of a model: what stands before their numbers, and the target stage of each.
class Layers {
 public:
  Layers(const std::set<std::string>& names, std::int64_t stages, const StageLayers& wanted) {
    std::map<std::string, std::set<std::int64_t>> numbers;
    for (const std::string& name : names) {
      if (const auto layer = layer_of(name)) numbers[layer->prefix].insert(layer->number);
    }
    prefix_ = choose_prefix(numbers);
    const std::set<std::int64_t>& own = numbers[prefix_];
    const auto count = static_cast<std::int64_t>(own.size());
    if (wanted.empty() && count < stages) {
      throw Error(ErrorKind::kBadInput, "the layers '" + printable(prefix_) + "<number>.' are " +
                                            std::to_string(count) +
                                            ", fewer than pp=" + std::to_string(stages));
    }
    const std::vector<std::int64_t> places = wanted.empty()
                                                 ? balanced_stages_of_layers(count, stages)
                                                 : stages_of_layers(count, stages, wanted);
    std::size_t index = 0;
    for (const std::int64_t number : own) stage_of_[number] = places[index++];
  }

  /// The target stage of a parameter that belongs to a layer.
  std::optional<std::int64_t> stage_for(const std::string& name) const {
    const std::optional<LayerName> layer = layer_of(name);
    if (!layer || layer->prefix != prefix_) return std::nullopt;
    return stage_of_.at(layer->number);
  }

 private:
  static std::string choose_prefix(const std::map<std::string, std::set<std::int64_t>>& numbers) {
    std::vector<std::string> several;
    for (const auto& [prefix, layers] : numbers) {
      if (layers.size() > 1) several.push_back(prefix);
    }
    if (several.size() == 1) return several.front();
    if (several.empty() && numbers.size() == 1) return numbers.begin()->first;
    throw Error(ErrorKind::kBadInput,
                several.empty() ? "no parameter name contains a layer number such as '.3.', so "
                                  "there is nothing to divide among stages"
                                : "layers may be counted behind any of " + name_list(several) +
                                      ", so it is unclear what to divide among stages")
        .hint(kUseRules);
  }

  std::string prefix_;
  std::map<std::int64_t, std::int64_t> stage_of_;
};

/// Where a parameter outside the layers goes: what was in the first stage stays in the first, what
/// was in the last in the last, what was in all in all. Empty: it cannot be known.
std::vector<std::int64_t> stages_outside_layers(const std::vector<std::int64_t>& held_by,
                                                std::int64_t source_stages,
                                                std::int64_t target_stages) {
  std::vector<std::int64_t> result;
  if (source_stages == 1) return result;
  if (source_stages > 2 && static_cast<std::int64_t>(held_by.size()) == source_stages) {
    for (std::int64_t stage = 0; stage < target_stages; ++stage) result.push_back(stage);
    return result;
  }
  for (const std::int64_t stage : held_by) {
    if (stage == 0) {
      result.push_back(0);
    } else if (stage == source_stages - 1) {
      result.push_back(target_stages - 1);
    } else {
      return {};
    }
  }
  return result;
}

std::vector<StageSources> as_they_are(const Strategy& source) {
  std::vector<StageSources> stages(static_cast<std::size_t>(source.stage_count()));
  for (std::int64_t stage = 0; stage < source.stage_count(); ++stage) {
    for (const auto& item : source.stage(stage)) {
      stages[static_cast<std::size_t>(stage)][item.first] = stage;
    }
  }
  return stages;
}

[[noreturn]] void refuse_unknown_places(const std::set<std::string>& names, bool one_stage) {
  throw Error(ErrorKind::kBadInput,
              (one_stage ? "the source has one stage, which leaves open where to place parameters "
                           "outside the layers: "
                         : "these belong to no layer and are neither in the first nor in the last "
                           "stage of the source: ") +
                  name_list(without_states(names)))
      .hint(kUseRules);
}

}  // namespace

std::vector<StageSources> restage(const Strategy& source, std::int64_t target_stages,
                                  const StageLayers& wanted) {
  if (target_stages == source.stage_count() && wanted.empty()) return as_they_are(source);
  const std::set<std::string> names = all_names(source);
  std::vector<StageSources> stages(static_cast<std::size_t>(target_stages));
  if (target_stages == 1 && wanted.empty()) {
    for (const std::string& name : names) stages[0][name] = source.stages_of(name).front();
    return stages;
  }
  const Layers layers(names, target_stages, wanted);
  std::set<std::string> unknown;
  for (const std::string& name : names) {
    const std::vector<std::int64_t> held_by = source.stages_of(name);
    if (const std::optional<std::int64_t> stage = layers.stage_for(name)) {
      stages[static_cast<std::size_t>(*stage)][name] = held_by.front();
      continue;
    }
    // The states of an optimizer go where their weight goes.
    const std::string weight = weight_name_of(name);
    const std::vector<std::int64_t> places =
        stages_outside_layers(source.contains(weight) ? source.stages_of(weight) : held_by,
                              source.stage_count(), target_stages);
    if (places.empty()) unknown.insert(name);
    for (const std::int64_t stage : places) {
      stages[static_cast<std::size_t>(stage)][name] = held_by.front();
    }
  }
  if (!unknown.empty()) refuse_unknown_places(unknown, source.stage_count() == 1);
  return stages;
}

}  // namespace reshardfs
