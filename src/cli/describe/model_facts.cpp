// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/model_facts.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/text/state_names.h"
#include "conversion/stated_model/layer_names.h"
#include "modelmap/family_names.h"

namespace reshardfs {
namespace {

/// Counts layers by the names of weights.
class NumberedLayers {
 public:
  void add(const std::string& name, const std::set<std::size_t>* groups) {
    const auto layer = layer_of(name);
    if (!layer) return;
    blocks_.insert(std::string(layer->block));
    std::set<std::size_t>& of_layer = groups_[layer->number];
    if (groups == nullptr) return;
    // Two groups that have a layer's number may each count from 0.
    if (of_layer.empty()) of_layer = *groups;
    if (of_layer != *groups) is_shared_ = true;
  }
  std::optional<std::uint64_t> count() const {
    if (blocks_.size() != 1 || is_shared_) return std::nullopt;
    const auto last = groups_.rbegin()->first;
    const auto count = static_cast<std::int64_t>(groups_.size());
    if (groups_.begin()->first != 0 || last != count - 1) return std::nullopt;
    const bool in_several = std::any_of(groups_.begin(), groups_.end(),
                                        [](const auto& layer) { return layer.second.size() > 1; });
    return in_several ? std::nullopt : std::optional(static_cast<std::uint64_t>(count));
  }

 private:
  std::set<std::string> blocks_;
  std::map<std::int64_t, std::set<std::size_t>> groups_;
  bool is_shared_ = false;
};

/// The families that have all names.
std::vector<std::size_t> families_of(const std::vector<const std::string*>& names,
                                     const FamilyNames& families) {
  std::vector<std::size_t> left;
  bool is_first = true;
  std::unordered_set<std::string> known;  // kinds: thousands of names differ in numbers alone
  for (const std::string* name : names) {
    std::string kind = FamilyNames::kind_of(*name);
    if (known.contains(kind)) continue;
    if (!families.heeds_numbers(*name)) known.insert(std::move(kind));
    std::vector<std::size_t> having;
    for (const FamilyName& family : families.find(*name)) having.push_back(family.family);
    std::sort(having.begin(), having.end());
    having.erase(std::unique(having.begin(), having.end()), having.end());
    if (is_first) {
      left = std::move(having);
    } else {
      std::erase_if(left, [&](std::size_t family) {
        return !std::binary_search(having.begin(), having.end(), family);
      });
    }
    is_first = false;
    if (left.empty()) break;
  }
  return left;
}

/// Of a HybridModel whose names tell all layers.
std::string pattern_of(const std::vector<const std::string*>& weights) {
  std::vector<modelmap::LayerTensor> tensors;
  for (const std::string* name : weights) tensors.push_back({*name, {}});
  const auto named = modelmap::layers_of_names(tensors);
  const bool is_told = named && named->is_hybrid && named->text().find('?') == std::string::npos;
  return is_told ? named->text() : std::string();
}

void add_once(std::vector<std::string>& list, const std::string& word) {
  if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
}

}  // namespace

ModelFacts model_facts(const HeldNames& held, const std::vector<modelmap::ModelMap>& maps,
                       std::string_view program) {
  ModelFacts facts;
  NumberedLayers layers;
  std::vector<const std::string*> weights;
  for (std::size_t i = 0; i < held.names.size(); ++i) {
    const std::string& name = held.names[i];
    if (is_training_state(name, held.state_prefixes)) {
      ++facts.states;
      continue;
    }
    weights.push_back(&name);
    layers.add(name, held.groups.empty() ? nullptr : &held.groups[i]);
  }
  facts.weights = weights.size();
  facts.layers = layers.count();
  facts.layer_pattern = pattern_of(weights);
  const FamilyNames families(maps);
  std::vector<std::size_t> known = families_of(weights, families);
  const auto is_of_program = [&](std::size_t family) {
    return families.network_of(family).starts_with(program);
  };
  if (std::any_of(known.begin(), known.end(), is_of_program)) {
    std::erase_if(known, [&](std::size_t family) { return !is_of_program(family); });
  }
  for (const std::size_t family : known) {
    add_once(facts.networks, families.network_of(family));
    add_once(facts.maps, std::filesystem::path(families.map_of(family).file).stem().string());
  }
  return facts;
}

}  // namespace reshardfs
