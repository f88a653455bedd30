// SPDX-License-Identifier: Apache-2.0
/// A strategy as rules.
#include <algorithm>
#include <map>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/strategy_rules.h"

#include "strategy/rules/rules_apply.h"
#include "strategy/rules/rules_cuts.h"
#include "strategy/rules/rules_document.h"
#include "strategy/rules/rules_globs.h"
#include "strategy/rules/rules_placements.h"

namespace reshardfs {
namespace {

constexpr const char* kNone = "\"none\"";

/// What a [[rule]] says beside the names.
struct WrittenRule {
  CutText cut;
  std::string stage;  ///< the value of `stage`; empty: the rule says nothing of it

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const WrittenRule&) const = default;
};

class RulesWriter {
 public:
  explicit RulesWriter(const Strategy& strategy)
      : strategy_(strategy), axes_(strategy), placements_(placements_of(strategy)) {}

  std::string write() {
    for (std::int64_t stage = 0; stage < strategy_.stage_count(); ++stage) {
      for (const auto& item : strategy_.stage(stage)) add(item.first);
    }
    choose_default_optimizer();
    const GlobList globs = write_globs(group_of_);
    std::string text = devices();
    for (const LayerPlacement& placement : placements_) {
      text += "\n" + placement_text(placement, strategy_.stage_count());
    }
    if (!globs.exceptions.empty()) {
      text += "\n# Exceptions come first: the first matching rule applies.\n";
      text += rules(globs.exceptions) + "\n# All others.\n";
    }
    return text + rules(globs.general);
  }

  /// Reads the text and applies it: what it says must be what the strategy says.
  void check(const std::string& text) const {
    std::vector<NamedShape> parameters;
    for (const auto& item : group_of_) {
      const std::int64_t stage = strategy_.stages_of(item.first).front();
      const Layout& layout = strategy_.stage(stage).at(item.first);
      parameters.push_back({item.first, Shape(layout.tensor_map.size(), 1)});
    }
    const Strategy read = apply_rules(read_rules("the rules that were written", text), parameters);
    bool same = read.stage_count() == strategy_.stage_count() &&
                read.devices_per_stage() == strategy_.devices_per_stage();
    for (std::int64_t stage = 0; same && stage < strategy_.stage_count(); ++stage) {
      same = std::equal(
          read.stage(stage).begin(), read.stage(stage).end(), strategy_.stage(stage).begin(),
          strategy_.stage(stage).end(), [&](const auto& a, const auto& b) {
            return a.first == b.first && cut_text(a.second, axes_) == cut_text(b.second, axes_);
          });
    }
    if (!same) throw Error(ErrorKind::kInternal, "the rules written mean something else");
  }

 private:
  void add(const std::string& name) {
    if (group_of_.contains(name)) return;
    check_rule_name(name);
    WrittenRule rule;
    try {
      rule = rule_of(name);
    } catch (Error& error) {
      error.for_parameter(name);
      throw;
    }
    const auto [known, is_new] = numbers_.try_emplace(rule, rules_.size());
    if (is_new) rules_.push_back(std::move(rule));
    group_of_[name] = known->second;
  }

  WrittenRule rule_of(const std::string& name) const {
    const std::vector<std::int64_t> stages = strategy_.stages_of(name);
    const Layout& layout = strategy_.stage(stages.front()).at(name);
    WrittenRule rule{cut_text(layout, axes_), {}};
    for (const std::int64_t stage : stages) {
      const Layout& other = strategy_.stage(stage).at(name);
      if (other.tensor_map.size() == layout.tensor_map.size() &&
          cut_text(other, axes_) == rule.cut) {
        continue;
      }
      throw Error(ErrorKind::kUnsupported,
                  "rules cannot express that it is laid out differently in stage " +
                      std::to_string(stages.front()) + " (" + to_string(layout) + ") and stage " +
                      std::to_string(stage) + " (" + to_string(other) + ")")
          .hint("keep MindSpore's form of this strategy");
    }
    if (placed_stages(placements_, name, strategy_.stage_count()) != stages) {
      rule.stage = stages.size() == 1 ? std::to_string(stages.front()) : number_list(stages);
    }
    return rule;
  }

  /// The optimizer's cut of most parameters is written once.
  void choose_default_optimizer() {
    std::map<std::string, std::size_t> uses;
    for (const auto& item : group_of_) ++uses[rules_[item.second].cut.optimizer];
    const auto most = std::max_element(
        uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    optimizer_ = most->first;
  }

  std::string devices() const {
    std::vector<std::string> axes;
    for (const CommonAxes::Axis& axis : axes_.axes()) {
      axes.push_back(toml_string(axis.name + "=" + std::to_string(axis.size)));
    }
    std::string text = "[devices]\naxes = " + value_list(axes) + "\n";
    if (strategy_.stage_count() > 1) {
      text += "stages = " + std::to_string(strategy_.stage_count()) + "\n";
    }
    if (optimizer_ != kNone) text += "optimizer = " + optimizer_ + "\n";
    text += "# A checkpoint may lack parameters that the strategy lists.\noptional = true\n";
    // A checkpoint may have sharded parameters that its strategy does not know: they must not be
    // taken for whole ones.
    return text +
           "# The strategy lists no other parameters; \"replicate\" takes them as "
           "whole.\nunmatched = \"error\"\n";
  }

  std::string rules(const std::vector<GroupGlobs>& groups) const {
    std::string text;
    for (const GroupGlobs& group : groups) {
      const WrittenRule& rule = rules_[group.group];
      text += "\n[[rule]]\nmatch = " + globs_value(group.globs) + "\n" + rule.cut.keys;
      if (rule.cut.optimizer != optimizer_) text += "optimizer = " + rule.cut.optimizer + "\n";
      if (!rule.stage.empty()) text += "stage = " + rule.stage + "\n";
    }
    return text;
  }

  const Strategy& strategy_;
  CommonAxes axes_;
  std::vector<LayerPlacement> placements_;
  std::vector<WrittenRule> rules_{};
  std::map<WrittenRule, std::size_t> numbers_{};  ///< where in rules_
  std::map<std::string, std::size_t> group_of_{};
  std::string optimizer_ = kNone;
};

}  // namespace

std::string to_rules(const Strategy& strategy) {
  if (strategy.first_stage() > 0) {
    throw Error(ErrorKind::kUnsupported, "it is of pipeline stage " +
                                             std::to_string(strategy.first_stage()) +
                                             " alone, and rules are for all stages")
        .hint("name the files of all stages, or a directory with them");
  }
  RulesWriter writer(strategy);
  std::string text = writer.write();
  if (text.size() > kMaxRulesBytes) {
    throw Error(ErrorKind::kUnsupported, "the rules would have " + std::to_string(text.size()) +
                                             " bytes, more than the " +
                                             std::to_string(kMaxRulesBytes) + " that are read")
        .hint("keep MindSpore's form of this strategy");
  }
  writer.check(text);
  return text;
}

}  // namespace reshardfs
