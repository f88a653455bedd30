// SPDX-License-Identifier: Apache-2.0
#include "conversion/family_places.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr const char* kGiveConfig = "--model-config states how many layers the model has";

/// The layers that tensors are of, and how many the model has.
class Layers {
 public:
  explicit Layers(const std::vector<std::string>& prefixes) : prefixes_(prefixes) {}

  void add(const std::string& name, const FamilyStage& stage) {
    stacks_.insert(stack_of(stage.stack));
    names_.try_emplace(*stage.layer, name);
    if (stage.layers) stated_.insert(*stage.layers);
  }

  bool empty() const noexcept { return names_.empty(); }

  /// @throws Error kBadInput if it cannot be told.
  std::int64_t count() const {
    if (names_.empty()) {
      throw Error(ErrorKind::kUsage, "no parameter is of a layer that pp could give to a stage");
    }
    if (stacks_.size() > 1) {
      throw Error(ErrorKind::kBadInput, "layers may be counted behind any of " +
                                            name_list({stacks_.begin(), stacks_.end()}) +
                                            ", so it is unclear what to divide among stages");
    }
    if (stated_.size() == 1) return require_all_within(*stated_.begin());
    const std::int64_t last = names_.rbegin()->first;
    if (static_cast<std::int64_t>(names_.size()) == last + 1) return last + 1;
    throw Error(ErrorKind::kBadInput,
                "the names of the parameters have layer " + std::to_string(last) + ", but only " +
                    counted(names_.size(), "layer") + ": how many the model has is unknown")
        .hint(kGiveConfig);
  }

 private:
  /// Without the prefix of an optimizer's state, which has the layers of its weight.
  std::string stack_of(const std::string& stack) const {
    for (const std::string& prefix : prefixes_) {
      if (!prefix.empty() && stack.starts_with(prefix)) return stack.substr(prefix.size());
    }
    return weight_name_of(stack);
  }

  std::int64_t require_all_within(std::int64_t layers) const {
    const auto& [last, name] = *names_.rbegin();
    if (last < layers) return layers;
    throw Error(ErrorKind::kBadInput,
                "is of layer " + std::to_string(last) + ", but config.json has " +
                    counted(static_cast<std::size_t>(layers), "layer") + ", counted from 0")
        .for_parameter(name)
        .hint("give the config.json of this model (--model-config)");
  }

  const std::vector<std::string>& prefixes_;
  std::set<std::string> stacks_{};
  std::map<std::int64_t, std::string> names_{};  ///< one name of each layer
  std::set<std::int64_t> stated_{};
};

std::vector<std::int64_t> stages_of(const FamilyStage& stage, std::int64_t stages,
                                    const std::vector<std::int64_t>& of_layers) {
  if (stage.layer) return {of_layers.at(static_cast<std::size_t>(*stage.layer))};
  std::vector<std::int64_t> all(static_cast<std::size_t>(stages));
  std::iota(all.begin(), all.end(), 0);
  if (stage.every) return all;
  std::set<std::int64_t> some;
  if (stage.first) some.insert(0);
  if (stage.last) some.insert(stages - 1);
  return {some.begin(), some.end()};
}

/// Of a tensor whose stage no map states.
/// @param has_head whether any tensor is the head.
Known<FamilyStage> planned_stage(const PlaceSource& source, const FamilyTensor& tensor,
                                 const std::function<bool()>& has_head, Known<FamilyStage> stated) {
  if (source.plan == nullptr || stated.origin() != kNoStageStated) return stated;
  if (!source.plan->cut_of(tensor.stated_name(), tensor.shape).is_known) return stated;
  const auto place = source.plan->place_of(tensor.stated_name());
  if (!place) return stated;
  FamilyStage stage{place->first, place->last, false, place->layer, place->stack, source.layers};
  if (stage.first && !has_head()) {
    if (!source.is_tied) {
      return Known<FamilyStage>::unknown("no config.json tells whether the head is tied to it");
    }
    stage.last = *source.is_tied;
  }
  return Known<FamilyStage>::stated(std::move(stage), source.plan->origin());
}

}  // namespace

PlacedTensors place_tensors(const PlaceSource& source, const std::vector<FamilyTensor>& tensors,
                            std::int64_t stages, const StageLayers& wanted,
                            const std::vector<std::string>& prefixes, UnknownPlaces unknown) {
  std::set<std::string_view> names;
  for (const FamilyTensor& tensor : tensors) names.insert(tensor.name);
  const auto has = [&](const std::string& name) { return names.contains(name); };
  // All names are looked at once, and only where it matters.
  std::optional<bool> known_head;
  const auto has_head = [&] {
    if (!known_head) {
      known_head = std::any_of(tensors.begin(), tensors.end(), [&](const FamilyTensor& tensor) {
        return source.is_head(tensor.name);
      });
    }
    return *known_head;
  };
  PlacedTensors placed;
  Layers layers(prefixes);
  std::vector<std::optional<FamilyStage>> found;
  for (const FamilyTensor& tensor : tensors) {
    Known<FamilyStage> stage = source.maps.find(tensor.stated_name(), tensor.made_by, has);
    if (!stage) stage = planned_stage(source, tensor, has_head, std::move(stage));
    found.push_back(stage ? std::optional(*stage) : std::nullopt);
    if (!stage && tensor.is_shown) {
      placed.unknown[stage.origin()].push_back(tensor.name);
      placed.why[tensor.name] = stage.origin();
    }
    if (stage && (*stage).layer) layers.add(tensor.name, *stage);
  }
  if (!placed.unknown.empty() && unknown == UnknownPlaces::kRefused) return placed;
  std::vector<std::int64_t> of_layers;
  if (placed.unknown.empty() || !layers.empty()) {
    const std::int64_t count = layers.count();
    of_layers = wanted.empty() ? equal_stages_of_layers(count, stages)
                               : stages_of_layers(count, stages, wanted);
  }
  for (const std::optional<FamilyStage>& stage : found) {
    placed.stages.push_back(stage ? stages_of(*stage, stages, of_layers)
                                  : std::vector<std::int64_t>());
  }
  return placed;
}

}  // namespace reshardfs
