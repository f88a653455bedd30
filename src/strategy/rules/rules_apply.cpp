// SPDX-License-Identifier: Apache-2.0
/// Rules met with the names and shapes of a checkpoint.
#include "strategy/rules/rules_apply.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/strategy_rules.h"

#include "base/text/text.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "strategy/rules/rules_document.h"
#include "strategy/rules/rules_globs.h"
#include "strategy/rules/rules_unmatched.h"

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
      .for_parameter(name)
      .hint("add the layer to a stage there, or write a rule with 'stage' for the parameter");
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

std::int64_t devices_of(const RulesDocument& document) {
  std::int64_t devices = 1;
  for (const std::int64_t axis : document.device_matrix) devices *= axis;
  return devices;
}

/// Whether the rules leave open how a source's parameter is laid out.
bool is_unknown(const RulesDocument& document, const std::string& name) {
  const bool said = document.unmatched == UnmatchedParameters::kReplicate ||
                    document.unmatched == UnmatchedParameters::kError;
  return !said && !rule_for(document, name);
}

/// Names the first such rule: one is to be decided after the other.
void refuse_undecided(const RulesDocument& document, const std::vector<NamedShape>& parameters) {
  const std::vector<RuleMatch> undecided = undecided_by(document, parameters);
  if (undecided.empty()) return;
  const RuleMatch& first = undecided.front();
  std::vector<std::string> names;
  std::set<std::size_t> others;
  for (const RuleMatch& match : undecided) {
    if (match.rule == first.rule) names.push_back(match.parameter);
    if (match.rule != first.rule) others.insert(match.rule);
  }
  std::string text = "line " + std::to_string(first.line) + ": the rule leaves undecided how " +
                     name_list(names) + (names.size() == 1 ? " is cut" : " are cut");
  if (!others.empty()) text += ", and so do " + counted(others.size(), "more rule");
  throw Error(ErrorKind::kBadInput, text)
      .hint(
          "the comments there may list what to write instead, or as a rule in front of it; or "
          "leave "
          "them out with --exclude");
}

/// @param model whose rule counts; nullptr: the parameter is left out. Gets each parameter's name.
Strategy apply(const RulesDocument& document, const std::vector<NamedShape>& parameters,
               const std::function<const std::string*(const std::string& name)>& model) {
  refuse_undecided(document, parameters);
  std::vector<StageLayouts> stages(static_cast<std::size_t>(document.stage_count));
  std::vector<std::string> unmatched;
  for (const NamedShape& parameter : parameters) {
    const std::string* name = model(parameter.name);
    if (name == nullptr) continue;
    const std::optional<Taken> taken = rule_for(document, *name);
    if (!taken && document.unmatched == UnmatchedParameters::kError) {
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
  return {std::move(stages), 0, document.stage_count > 1, {}, devices_of(document)};
}

}  // namespace

std::vector<RuleMatch> undecided_by(const RulesDocument& document,
                                    const std::vector<NamedShape>& parameters) {
  std::vector<RuleMatch> found;
  const bool any = std::any_of(document.rules.begin(), document.rules.end(),
                               [](const Rule& rule) { return rule.undecided; });
  if (!any) return found;
  for (const NamedShape& parameter : parameters) {
    const std::optional<Taken> taken = rule_for(document, parameter.name);
    if (!taken || !document.rules[taken->rule].undecided) continue;
    const Rule& rule = document.rules[taken->rule];
    found.push_back({parameter.name, taken->rule, rule.line, *taken->glob});
  }
  return found;
}

Strategy apply_rules(const RulesDocument& document, const std::vector<NamedShape>& parameters) {
  return apply(document, parameters, [](const std::string& name) { return &name; });
}

Strategy apply_rules_to_source(const RulesDocument& document,
                               const std::vector<NamedShape>& parameters, const LaidOutLike& like) {
  return apply(document, parameters, [&](const std::string& name) -> const std::string* {
    if (!is_unknown(document, name)) return &name;
    const auto found = like.find(name);
    if (found == like.end()) return nullptr;
    return found->second.empty() ? &name : &found->second;
  });
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

StrategyRules StrategyRules::load(const std::filesystem::path& path,
                                  const std::filesystem::path& linkless_root) {
  const SourceTreePtr tree = linkless_tree_of(linkless_root, path);
  return parse(path.string(), read_small_file(path, kMaxRulesBytes, tree));
}

StrategyRules StrategyRules::parse(const std::string& file, const std::string& text) {
  auto state = std::make_unique<State>();
  state->document = read_rules(file, text);
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

Strategy StrategyRules::apply_to_source(const std::vector<NamedShape>& parameters,
                                        const LaidOutLike& like) const {
  try {
    return apply_rules_to_source(state_->document, parameters, like);
  } catch (Error& error) {
    error.in_file(state_->document.file);
    throw;
  }
}

std::vector<NamedShape> StrategyRules::unknown(const std::vector<NamedShape>& parameters) const {
  std::vector<NamedShape> unknown;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(unknown),
               [&](const NamedShape& p) { return is_unknown(state_->document, p.name); });
  return unknown;
}

std::vector<std::string> StrategyRules::globs_for(const std::vector<NamedShape>& parameters,
                                                  const std::set<std::string>& names) const {
  std::map<std::string, std::size_t> groups;
  for (const NamedShape& parameter : parameters) {
    groups[parameter.name] = names.contains(parameter.name) ? 1 : 0;
  }
  std::vector<std::string> globs;
  const GlobList list = write_globs(groups);
  for (const auto* part : {&list.exceptions, &list.general}) {
    for (const GroupGlobs& group : *part) {
      if (group.group == 1) globs.insert(globs.end(), group.globs.begin(), group.globs.end());
    }
  }
  return globs;
}

const std::string& StrategyRules::file() const noexcept {
  return state_->document.file;
}

const std::string& StrategyRules::cutting_axis() const noexcept {
  const auto& sizes = state_->document.device_matrix;
  const auto last = std::find_if(sizes.rbegin(), sizes.rend(), [](auto size) { return size > 1; });
  const auto behind = last == sizes.rend() ? 0 : std::distance(sizes.rbegin(), last);
  return *(state_->document.axis_names.rbegin() + behind);
}

std::int64_t StrategyRules::rank_count() const noexcept {
  return state_->document.stage_count * devices_of(state_->document);
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

std::int64_t StrategyRules::stage_count() const noexcept {
  return state_->document.stage_count;
}

std::vector<std::string> StrategyRules::unmatched(const std::vector<NamedShape>& parameters) const {
  return unmatched_by(state_->document, parameters);
}

void StrategyRules::require_matched(const std::vector<NamedShape>& parameters) const {
  const std::vector<std::string> lines = unmatched(parameters);
  if (lines.empty()) return;
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, lines.size()); ++i) {
    text += (i == 0 ? "" : "; ") + lines[i];
  }
  if (lines.size() > kShown) text += "; and " + std::to_string(lines.size() - kShown) + " more";
  throw Error(ErrorKind::kBadInput, text)
      .in_file(file())
      .hint("optional = true in the rule says that a checkpoint may have no such parameters");
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
