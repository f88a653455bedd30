// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules/rules_draft.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/name_groups.h"
#include "base/text/numbers.h"
#include "base/text/state_names.h"
#include "base/text/text.h"
#include "strategy/derive/layer_stages.h"
#include "strategy/derive/sized_strategy.h"
#include "strategy/rules/rules_apply.h"
#include "strategy/rules/rules_cuts.h"
#include "strategy/rules/rules_document.h"
#include "strategy/rules/rules_globs.h"
#include "strategy/rules/rules_placements.h"

namespace reshardfs {
namespace {

/// Where the first number between two dots is in a name.
std::optional<std::size_t> first_number(std::string_view name) {
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    const std::size_t next = name.find('.', dot + 1);
    if (next == std::string_view::npos) return std::nullopt;
    if (parse_number(name.substr(dot + 1, next - dot - 1))) return dot + 1;
  }
  return std::nullopt;
}

/// `cut` with one axis, for all dimensions.
std::string cut_line(std::size_t dimensions, std::size_t cut, const std::string& axis) {
  std::vector<std::string> entries(dimensions, "\"\"");
  entries.at(cut) = toml_string(axis);
  return "cut = " + value_list(entries) + "\n";
}

/// What a [[rule]] says beside `match`, and whose it is.
struct DraftedRule {
  std::string keys{};  ///< of a blank: those that may hold
  std::string stage{};
  std::string kind{};  ///< of a blank
  std::string why{};   ///< of a blank

  bool is_blank() const { return !kind.empty(); }
  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const DraftedRule&) const = default;
};

class DraftWriter {
 public:
  DraftWriter(const ParallelSizes& sizes, const std::vector<DraftedParameter>& parameters)
      : sizes_(sizes),
        parameters_(parameters),
        axes_(axes_of(sizes)),
        known_(strategy_of_known()),
        placements_(placements_of(known_)) {}

  RulesDraft write(const std::vector<std::string>& header) {
    for (const DraftedParameter& parameter : parameters_) add(parameter);
    for (const std::string& line : header) draft_.text += "# " + line + "\n";
    draft_.text += (header.empty() ? "" : "\n") + devices();
    for (const LayerPlacement& placement : placements_) {
      draft_.text += "\n" + placement_text(placement, sizes_.stages);
    }
    draft_.text += layers_to_complete();
    const GlobList globs = write_globs(group_of_);
    if (!globs.exceptions.empty()) {
      draft_.text += "\n# Exceptions come first: the first matching rule applies.\n";
      add_rules(globs.exceptions);
      draft_.text += "\n# All others.\n";
    }
    add_rules(globs.general);
    return std::move(draft_);
  }

  /// Reads the text and applies it: what is known must be what it says, and the rest undecided.
  void check(const std::string& text) const {
    const RulesDocument document = read_rules("the rules that were written", text);
    std::vector<NamedShape> known;
    for (const DraftedParameter& parameter : parameters_) {
      const NamedShape named{parameter.parameter.name, parameter.shape};
      const bool is_undecided = !undecided_by(document, {named}).empty();
      if (is_undecided == parameter.is_known()) fail();
      if (!is_undecided) known.push_back(named);
    }
    if (known.empty()) return;
    const Strategy read = apply_rules(document, known);
    const Strategy wanted = sized_strategy(sizes_, parameters_of(known_names()));
    for (const NamedShape& parameter : known) {
      const std::vector<std::int64_t> stages = wanted.stages_of(parameter.name);
      if (read.stages_of(parameter.name) != stages) fail();
      const Layout& layout = wanted.stage(stages.front()).at(parameter.name);
      const Layout& found = read.stage(stages.front()).at(parameter.name);
      if (found.device_matrix != layout.device_matrix || found.tensor_map != layout.tensor_map) {
        fail();
      }
    }
  }

 private:
  [[noreturn]] static void fail() {
    throw Error(ErrorKind::kInternal, "the rules written mean something else");
  }

  std::set<std::string> known_names() const {
    std::set<std::string> names;
    for (const DraftedParameter& parameter : parameters_) {
      if (parameter.is_known()) names.insert(parameter.parameter.name);
    }
    return names;
  }

  std::vector<SizedParameter> parameters_of(const std::set<std::string>& names) const {
    std::vector<SizedParameter> found;
    for (const DraftedParameter& parameter : parameters_) {
      if (names.contains(parameter.parameter.name)) found.push_back(parameter.parameter);
    }
    return found;
  }

  /// For the stages of those that have some.
  Strategy strategy_of_known() const {
    std::vector<SizedParameter> placed;
    for (const DraftedParameter& parameter : parameters_) {
      if (!parameter.parameter.stages.empty()) placed.push_back(parameter.parameter);
    }
    return sized_strategy(sizes_, placed);
  }

  void add(const DraftedParameter& parameter) {
    const std::string& name = parameter.parameter.name;
    check_rule_name(name);
    DraftedRule rule{keys_of(parameter), stage_of(parameter), {}, {}};
    if (!parameter.is_known()) {
      rule.kind = glob_for_numbers(weight_name_of(name));
      rule.why = to_string(parameter.shape) + ", " +
                 (parameter.unknown_cut.empty() ? parameter.unknown_stage : parameter.unknown_cut);
    }
    const auto [known, is_new] = numbers_.try_emplace(rule, rules_.size());
    if (is_new) {
      rules_.push_back(std::move(rule));
      members_.emplace_back();
    }
    group_of_[name] = known->second;
    members_[known->second].push_back(name);
  }

  /// `cut`: what it is, or what it may be.
  std::string keys_of(const DraftedParameter& drafted) const {
    const SizedParameter& parameter = drafted.parameter;
    std::string keys;
    if (!drafted.unknown_cut.empty()) {
      for (std::size_t d = 0; d < parameter.dimensions; ++d) {
        for (const ParallelAxis& axis : axes_) {
          const bool may_cut = axis.name != "dp" && axis.size > 1;
          if (may_cut && drafted.shape[d] % axis.size == 0) {
            keys += cut_line(parameter.dimensions, d, axis.name);
          }
        }
      }
      return keys;
    }
    if (parameter.tensor_cut && sizes_.tensor > 1) {
      keys += cut_line(parameter.dimensions, *parameter.tensor_cut, "tp");
    }
    if (parameter.expert_cut && sizes_.expert > 1) {
      keys += cut_line(parameter.dimensions, *parameter.expert_cut, "ep");
    }
    return keys;
  }

  bool is_placed(const std::string& name) const {
    return std::any_of(placements_.begin(), placements_.end(),
                       [&](const auto& placement) { return placement.layer_of(name).has_value(); });
  }

  /// `stage`; empty where the layer says it.
  std::string stage_of(const DraftedParameter& drafted) const {
    if (sizes_.stages == 1) return {};
    const std::vector<std::int64_t>& stages = drafted.parameter.stages;
    const std::string& name = drafted.parameter.name;
    const std::vector<std::int64_t> placed = placed_stages(placements_, name, sizes_.stages);
    if (placed == stages) return {};
    if (stages.empty()) {
      // A layer that has no stage needs one of its own.
      const bool is_outside = !is_placed(name) && !first_number(weight_name_of(name));
      return is_outside || placed.front() < 0 ? "stage = 0\n" : "";
    }
    return "stage = " +
           (stages.size() == 1 ? std::to_string(stages.front()) : number_list(stages)) + "\n";
  }

  std::string devices() const {
    std::vector<std::string> axes;
    for (const ParallelAxis& axis : axes_) {
      axes.push_back(toml_string(axis.name + "=" + std::to_string(axis.size)));
    }
    std::string text = "[devices]\naxes = " + value_list(axes) + "\n";
    if (sizes_.stages > 1) text += "stages = " + std::to_string(sizes_.stages) + "\n";
    return text + "unmatched = \"error\"\n";
  }

  /// [[layers]] for numbers that nothing places, commented out.
  std::string layers_to_complete() const {
    std::map<std::string, std::set<std::int64_t>> layers;
    for (const DraftedParameter& drafted : parameters_) {
      const std::string name = weight_name_of(drafted.parameter.name);
      const auto number = first_number(name);
      if (drafted.unknown_stage.empty() || !number || is_placed(name)) continue;
      std::string_view rest = std::string_view(name).substr(*number);
      if (const auto layer = take_number<std::int64_t>(rest)) {
        layers[name.substr(0, *number)].insert(*layer);
      }
    }
    std::string text;
    for (const auto& [before, numbers] : layers) {
      text += "\n# These have layers, too; 'split' is how many of them each stage has.\n";
      text +=
          commented_out("[[layers]]\nmatch = " + toml_string(before + "{n}.") + "\nsplit = " +
                        number_list(balanced_layers(*numbers.rbegin() + 1, sizes_.stages)) + "\n");
    }
    return text;
  }

  void add_rules(const std::vector<GroupGlobs>& list) {
    for (const GroupGlobs& item : list) {
      const DraftedRule& rule = rules_[item.group];
      std::string& text = draft_.text;
      text += "\n";
      if (rule.is_blank()) text += blank_words(rule, members_[item.group]);
      text += "[[rule]]\nmatch = " + globs_value(item.globs) + "\n";
      text += rule.is_blank() ? commented_out(rule.keys + rule.stage) + "undecided = true\n"
                              : rule.keys + rule.stage;
      if (rule.is_blank()) ++draft_.blanks;
    }
  }

  static std::string blank_words(const DraftedRule& rule, const std::vector<std::string>& names) {
    const std::vector<std::string> groups = group_names(names);
    return "# To complete: " + name_list(groups) + " " + rule.why + ".\n";
  }

  const ParallelSizes& sizes_;
  const std::vector<DraftedParameter>& parameters_;
  std::vector<ParallelAxis> axes_;
  Strategy known_;
  std::vector<LayerPlacement> placements_;
  std::map<DraftedRule, std::size_t> numbers_{};
  std::vector<DraftedRule> rules_{};
  std::vector<std::vector<std::string>> members_{};  ///< names, by rule
  std::map<std::string, std::size_t> group_of_{};
  RulesDraft draft_{};
};

}  // namespace

RulesDraft draft_rules(const ParallelSizes& sizes, const std::vector<DraftedParameter>& parameters,
                       const std::vector<std::string>& header) {
  DraftWriter writer(sizes, parameters);
  RulesDraft draft = writer.write(header);
  writer.check(draft.text);
  return draft;
}

}  // namespace reshardfs
