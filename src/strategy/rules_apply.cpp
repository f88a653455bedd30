// SPDX-License-Identifier: Apache-2.0
/// Rules met with the names and shapes of a checkpoint.
#include "strategy/rules_apply.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/strategy_rules.h"

#include "storage/directory.h"
#include "strategy/rules_document.h"
#include "strategy/rules_names.h"

namespace reshardfs {
namespace {

struct Taken {
  std::size_t rule = 0;
  const std::string* glob = nullptr;
};

/// The first rule that matches: rules are tried in the order of the file.
std::optional<Taken> rule_for(const RulesDocument& document, const std::string& name) {
  for (std::size_t i = 0; i < document.rules.size(); ++i) {
    const std::string* glob = document.rules[i].matching_glob(name);
    if (glob != nullptr) return Taken{i, glob};
  }
  return std::nullopt;
}

Layout replicated(const RulesDocument& document, const NamedShape& parameter) {
  Layout layout;
  layout.device_matrix = document.device_matrix;
  layout.tensor_map.resize(parameter.shape.size());
  return layout;
}

Layout layout_by(const RulesDocument& document, const Rule& rule, const std::string& glob,
                 const NamedShape& parameter) {
  Layout layout = replicated(document, parameter);
  const std::size_t dimensions = parameter.shape.size();
  // A scalar has nothing to cut: whatever the rule says, every device holds it.
  if (dimensions == 0) return layout;
  if (rule.cut.size() > dimensions) {
    throw Error(ErrorKind::kBadInput, "line " + std::to_string(rule.line) + ": the rule '" +
                                          printable(glob) + "' is for " +
                                          counted(rule.cut.size(), "dimension") +
                                          ", but the shape is " + to_string(parameter.shape))
        .for_parameter(parameter.name)
        .hint("put a rule for such parameters before it");
  }
  std::copy(rule.cut.begin(), rule.cut.end(), layout.tensor_map.begin());
  layout.uneven = rule.uneven;
  if (!layout.uneven.empty()) layout.uneven.resize(dimensions);
  layout.field = rule.field;
  layout.optimizer_shard_size = rule.optimizer;
  return layout;
}

std::int64_t stage_of_layer(const LayerPlacement& placement, std::int64_t layer,
                            const std::string& name) {
  const auto layers = static_cast<std::int64_t>(placement.stage_of_layer.size());
  const std::int64_t stage =
      layer < layers ? placement.stage_of_layer[static_cast<std::size_t>(layer)] : -1;
  if (stage >= 0) return stage;
  throw Error(ErrorKind::kBadInput, "line " + std::to_string(placement.line) +
                                        ": [[layers]] puts layer " + std::to_string(layer) +
                                        " in no stage")
      .for_parameter(name);
}

/// Where the rule says, else where its layer is, else on all stages.
std::vector<std::int64_t> stages_for(const RulesDocument& document, const Rule* rule,
                                     const std::string& name) {
  if (rule != nullptr && !rule->stages.empty()) return rule->stages;
  for (const LayerPlacement& placement : document.layers) {
    const std::optional<std::int64_t> layer = placement.layer_of(name);
    if (layer) return {stage_of_layer(placement, *layer, name)};
  }
  std::vector<std::int64_t> all;
  for (std::int64_t stage = 0; stage < document.stage_count; ++stage) all.push_back(stage);
  return all;
}

void place(std::vector<StageLayouts>& stages, const std::vector<std::int64_t>& where,
           const NamedShape& parameter, const Layout& layout) {
  for (const std::int64_t stage : where) {
    const auto [position, inserted] =
        stages[static_cast<std::size_t>(stage)].try_emplace(parameter.name, layout);
    if (inserted || position->second == layout) continue;
    throw Error(ErrorKind::kBadInput, "has " +
                                          counted(position->second.tensor_map.size(), "dimension") +
                                          " and also " + std::to_string(parameter.shape.size()))
        .for_parameter(parameter.name);
  }
}

}  // namespace

Strategy apply_rules(const RulesDocument& document, const std::vector<NamedShape>& parameters) {
  std::vector<StageLayouts> stages(static_cast<std::size_t>(document.stage_count));
  std::vector<std::string> unmatched;
  for (const NamedShape& parameter : parameters) {
    const std::optional<Taken> taken = rule_for(document, parameter.name);
    if (!taken && document.refuse_unmatched) {
      unmatched.push_back(parameter.name);
      continue;
    }
    const Rule* rule = taken ? &document.rules[taken->rule] : nullptr;
    place(stages, stages_for(document, rule, parameter.name), parameter,
          taken ? layout_by(document, *rule, *taken->glob, parameter)
                : replicated(document, parameter));
  }
  if (!unmatched.empty()) {
    throw Error(ErrorKind::kBadInput, "no rule takes " + name_list(unmatched))
        .hint("add rules, or set unmatched = \"replicate\" in [devices]");
  }
  if (parameters.empty()) {
    throw Error(ErrorKind::kBadInput, "there are no parameters to apply the rules to");
  }
  return {std::move(stages), 0, document.stage_count > 1};
}

struct StrategyRules::State {
  RulesDocument document;
};

StrategyRules::StrategyRules(std::unique_ptr<State> state) : state_(std::move(state)) {}
StrategyRules::StrategyRules(StrategyRules&&) noexcept = default;
StrategyRules& StrategyRules::operator=(StrategyRules&&) noexcept = default;
StrategyRules::~StrategyRules() = default;

bool StrategyRules::is_rules_file(const std::filesystem::path& path) {
  return path.extension() == ".toml";
}

StrategyRules StrategyRules::load(const std::filesystem::path& path) {
  auto state = std::make_unique<State>();
  state->document = read_rules(path.string(), read_small_file(path, kMaxRulesBytes));
  return StrategyRules(std::move(state));
}

Strategy StrategyRules::apply(const std::vector<NamedShape>& parameters) const {
  try {
    return apply_rules(state_->document, parameters);
  } catch (Error& error) {
    error.in_file(state_->document.file);
    throw;
  }
}

std::int64_t StrategyRules::rank_count() const noexcept {
  std::int64_t ranks = state_->document.stage_count;
  for (const std::int64_t axis : state_->document.device_matrix) ranks *= axis;
  return ranks;
}

std::vector<RuleMatch> StrategyRules::matches(const std::vector<NamedShape>& parameters) const {
  std::vector<RuleMatch> found;
  for (const NamedShape& parameter : parameters) {
    const std::optional<Taken> taken = rule_for(state_->document, parameter.name);
    if (!taken) continue;
    const Rule& rule = state_->document.rules[taken->rule];
    found.push_back({parameter.name, taken->rule, rule.line, *taken->glob});
  }
  return found;
}

std::vector<RuleMatch> StrategyRules::unused(const std::vector<NamedShape>& parameters) const {
  std::vector<bool> used(state_->document.rules.size(), false);
  for (const RuleMatch& match : matches(parameters)) used[match.rule] = true;
  std::vector<RuleMatch> found;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    const Rule& rule = state_->document.rules[i];
    std::string globs;
    for (const std::string& glob : rule.globs) globs += (globs.empty() ? "" : ", ") + glob;
    found.push_back({"", i, rule.line, globs});
  }
  return found;
}

}  // namespace reshardfs
