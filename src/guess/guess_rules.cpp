// SPDX-License-Identifier: Apache-2.0
#include "guess/guess_rules.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/strategy_rules.h"

#include "base/text/name_groups.h"
#include "base/text/text.h"
#include "guess/guess_words.h"
#include "layout/slicing.h"
#include "strategy/rules/rules_apply.h"
#include "strategy/rules/rules_cuts.h"
#include "strategy/rules/rules_document.h"
#include "strategy/rules/rules_globs.h"
#include "strategy/rules/rules_placements.h"

namespace reshardfs {
namespace {

constexpr std::size_t kCommentWidth = 98;

/// One rule, or several of which one may be right.
struct RuleCandidate {
  std::string words;
  std::string keys;      ///< `cut`, `uneven` and `optimizer`
  bool has_rule = true;  ///< the device matrix of the file has its axes

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const RuleCandidate&) const = default;
};

struct Group {
  Certainty certainty = Certainty::kOpen;
  std::string words;
  std::string other;  ///< as GuessedParameter::other
  std::string stage;  ///< the value of `stage`; empty: the rule says nothing of it
  std::vector<RuleCandidate> candidates;

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const Group&) const = default;
};

std::string words_of(const GuessedParameter& parameter) {
  switch (parameter.certainty) {
    case Certainty::kProven:
      return "proven: " + parameter.why;
    case Certainty::kOneOf:
      return "one of " + std::to_string(parameter.choices()) + " layouts: " + parameter.why;
    case Certainty::kOpen:
      break;
  }
  return "open: " + parameter.why;
}

/// The text in lines that each begin with "# ".
std::string comment(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kCommentWidth) {
      out += "# " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + "# " + line + "\n";
}

std::string rule_with(std::string rule, const std::string& keys, const std::string& stage) {
  rule += keys;
  rule += stage;
  return rule;
}

/// Parameters of these layouts, for the axes that they have in common.
Strategy strategy_with(const std::vector<Layout>& layouts, std::int64_t devices) {
  StageLayouts stage;
  for (std::size_t i = 0; i < layouts.size(); ++i) stage.try_emplace(std::to_string(i), layouts[i]);
  std::vector<StageLayouts> stages;
  stages.push_back(std::move(stage));
  return {std::move(stages), 0, false, {}, devices};
}

/// The same slices by an optimizer cut alone, which needs no axis; nothing if that gives others.
std::optional<Layout> optimizer_form(const Reading& reading) {
  const auto devices = static_cast<std::int64_t>(reading.parts.size());
  const bool rows_alone = std::all_of(reading.splits.begin() + 1, reading.splits.end(),
                                      [](std::int64_t parts) { return parts == 1; });
  if (reading.is_whole() || !rows_alone || !reading.layout.uneven.empty()) return std::nullopt;
  Layout layout = whole_layout(reading.parts.size(), reading.splits.size());
  layout.optimizer_shard_size = reading.splits.front();
  if (devices % reading.splits.front() != 0) return std::nullopt;
  if (reading_by(layout, reading.full_shape).parts != reading.parts) return std::nullopt;
  return layout;
}

/// Whether the devices that hold a slice can share the optimizer's parts of it equally: rules state
/// no other cut.
bool shares_equally(const Layout& layout) {
  if (layout.optimizer_shard_size <= 0) return true;
  std::int64_t holders = device_count(layout);
  for (const std::vector<int>& dimension : layout.tensor_map) {
    holders /= device_count(group_of(layout, dimension));
  }
  return holders % layout.optimizer_shard_size == 0;
}

/// Finds out which layouts go into one device matrix.
class MatrixFitter {
 public:
  explicit MatrixFitter(std::int64_t devices) : devices_(devices) {}

  bool fits(const Layout& layout) {
    const auto has = [&](const std::vector<Layout>& list) {
      return std::find(list.begin(), list.end(), layout) != list.end();
    };
    if (has(fitting_)) return true;
    if (has(refused_)) return false;
    fitting_.push_back(layout);
    try {
      const CommonAxes axes(strategy_with(fitting_, devices_));
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
    }
    fitting_.pop_back();
    refused_.push_back(layout);
    return false;
  }

 private:
  std::int64_t devices_;
  std::vector<Layout> fitting_{};
  std::vector<Layout> refused_{};
};

/// The device matrix of the file: that of what is proven, and of the rest as far as it fits in.
class Axes {
 public:
  explicit Axes(const Guess& guess) : devices_(guess.devices) {
    for (const Certainty certainty : {Certainty::kProven, Certainty::kOneOf}) {
      for (const GuessedParameter& parameter : guess.parameters) {
        if (parameter.certainty != certainty) continue;
        for (const Reading& reading : parameter.readings) {
          add(reading.layout, certainty == Certainty::kProven ? &parameter.name : nullptr);
        }
      }
    }
    axes_.emplace(strategy_with(layouts_, devices_));
  }

  /// Nothing if the device matrix does not have the axes, or no rule states the optimizer's cut.
  std::optional<CutText> text(const Layout& layout) const {
    if (!has(*axes_, layout) || !shares_equally(layout)) return std::nullopt;
    return cut_text(layout, *axes_);
  }
  const CommonAxes& common() const { return *axes_; }

 private:
  /// @param required the parameter that must have it; nullptr: it is left out if it does not fit.
  void add(const Layout& layout, const std::string* required) {
    const auto has = [&](const std::vector<Layout>& list) {
      return std::find(list.begin(), list.end(), layout) != list.end();
    };
    if (has(layouts_) || has(refused_)) return;
    if (refused_.size() + layouts_.size() > kMostLayouts && required == nullptr) return;
    std::vector<Layout> with = layouts_;
    with.push_back(layout);
    try {
      const CommonAxes axes(strategy_with(with, devices_));
      layouts_ = std::move(with);
    } catch (Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      if (required != nullptr) throw error.for_parameter(*required);
      refused_.push_back(layout);
    }
  }

  static bool has(const CommonAxes& axes, const Layout& layout) {
    for (const std::vector<int>& dimension : layout.tensor_map) {
      const DeviceGroup group = group_of(layout, dimension);
      const std::vector<std::string> names = axes.names_of(group);
      std::int64_t devices = 1;
      for (const CommonAxes::Axis& axis : axes.axes()) {
        const bool named = std::find(names.begin(), names.end(), axis.name) != names.end();
        if (named) devices *= axis.size;
      }
      if (devices != device_count(group)) return false;
    }
    return true;
  }

  static constexpr std::size_t kMostLayouts = 64;

  std::int64_t devices_;
  std::vector<Layout> layouts_{};
  std::vector<Layout> refused_{};
  std::optional<CommonAxes> axes_{};
};

class GuessWriter {
 public:
  /// @param lists_candidates whether rules are written that may be right.
  GuessWriter(const Guess& guess, bool lists_candidates)
      : guess_(guess),
        lists_candidates_(lists_candidates),
        axes_(guess),
        strategy_(strategy_of(guess)),
        placements_(placements_of(strategy_)) {}

  std::string write(const std::vector<std::string>& header) {
    for (const GuessedParameter& parameter : guess_.parameters) add(parameter);
    std::string text;
    for (const std::string& line : header) text += comment(line);
    text += devices();
    for (const LayerPlacement& placement : placements_) {
      text += "\n" + placement_text(placement, guess_.stages);
    }
    const GlobList globs = write_globs(group_of_);
    if (!globs.exceptions.empty()) {
      text += "\n# Exceptions come first: the first matching rule applies.\n";
      text += rules(globs.exceptions) + "\n# All others.\n";
    }
    return text + rules(globs.general);
  }

  /// Reads the text and applies it: what is proven must be what it says, and the rest undecided.
  void check(const std::string& text) const {
    const RulesDocument document = read_rules("the rules that were written", text);
    std::vector<NamedShape> proven;
    for (const GuessedParameter& parameter : guess_.parameters) {
      const NamedShape named{parameter.name, Shape(parameter.dimensions, 1)};
      const bool undecided = !undecided_by(document, {named}).empty();
      if (undecided == (parameter.certainty == Certainty::kProven)) fail();
      if (!undecided) proven.push_back(named);
    }
    if (proven.empty()) return;
    const Strategy read = apply_rules(document, proven);
    for (const GuessedParameter& parameter : guess_.parameters) {
      if (parameter.certainty != Certainty::kProven) continue;
      if (read.stages_of(parameter.name) != parameter.stages) fail();
      const Layout& layout = read.stage(parameter.stages.front()).at(parameter.name);
      const Layout& wanted = parameter.readings.front().layout;
      if (cut_text(layout, axes_.common()) != cut_text(wanted, axes_.common())) fail();
    }
  }

 private:
  [[noreturn]] static void fail() {
    throw Error(ErrorKind::kInternal, "the rules written mean something else");
  }

  /// For the stages of all parameters.
  static Strategy strategy_of(const Guess& guess) {
    std::vector<StageLayouts> stages(static_cast<std::size_t>(guess.stages));
    for (const GuessedParameter& parameter : guess.parameters) {
      const Layout layout =
          whole_layout(static_cast<std::size_t>(guess.devices), parameter.dimensions);
      for (const std::int64_t stage : parameter.stages) {
        stages[static_cast<std::size_t>(stage)].try_emplace(parameter.name, layout);
      }
    }
    return {std::move(stages), 0, guess.stages > 1, {}, guess.devices};
  }

  void add(const GuessedParameter& parameter) {
    check_rule_name(parameter.name);
    Group group{parameter.certainty, words_of(parameter), parameter.other, {}, {}};
    for (std::size_t i = 0; i < parameter.readings.size(); ++i) {
      group.candidates.push_back(candidate_for(parameter, i));
    }
    if (placed_stages(placements_, parameter.name, guess_.stages) != parameter.stages) {
      group.stage = parameter.stages.size() == 1 ? std::to_string(parameter.stages.front())
                                                 : number_list(parameter.stages);
    }
    const auto [known, is_new] = numbers_.try_emplace(group, groups_.size());
    if (is_new) groups_.push_back(std::move(group));
    group_of_[parameter.name] = known->second;
  }

  RuleCandidate candidate_for(const GuessedParameter& parameter, std::size_t number) const {
    const Reading& reading = parameter.readings[number];
    const auto cut = axes_.text(reading.layout);
    if (parameter.certainty == Certainty::kProven) return rule_of(*cut, {});
    const std::string words = reading_words(reading) + ": " + order_words(reading) + "; " +
                              settling_words(parameter.readings, number);
    if (!cut) return {words + "; needs other axes: " + to_string(reading.layout), {}, false};
    return rule_of(*cut, words);
  }

  static RuleCandidate rule_of(const CutText& cut, const std::string& words) {
    const bool by_optimizer = cut.optimizer != "\"none\"";
    return {words, cut.keys + (by_optimizer ? "optimizer = " + cut.optimizer + "\n" : ""), true};
  }

  std::string devices() const {
    std::vector<std::string> axes;
    for (const CommonAxes::Axis& axis : axes_.common().axes()) {
      axes.push_back(toml_string(axis.name + "=" + std::to_string(axis.size)));
    }
    std::string text = "\n[devices]\naxes = " + value_list(axes) + "\n";
    if (guess_.stages > 1) text += "stages = " + std::to_string(guess_.stages) + "\n";
    return text + "unmatched = \"error\"\n";
  }

  std::string rules(const std::vector<GroupGlobs>& list) const {
    std::string text;
    for (const GroupGlobs& item : list) {
      const Group& group = groups_[item.group];
      const std::string begin = "[[rule]]\nmatch = " + globs_value(item.globs) + "\n";
      const std::string stage = group.stage.empty() ? "" : "stage = " + group.stage + "\n";
      text += "\n" + comment(group.words);
      if (group.certainty == Certainty::kProven) {
        text += rule_with(begin, group.candidates.front().keys, stage);
        continue;
      }
      if (lists_candidates_) text += candidates(group, begin, stage);
      text += begin;
      // When a rule before it decides, it has no effect, and no name in it is wrong.
      text += "undecided = true\noptional = true\n";
    }
    return text;
  }

  static std::string candidates(const Group& group, const std::string& begin,
                                const std::string& stage) {
    std::string text;
    for (const RuleCandidate& candidate : group.candidates) {
      text += comment(candidate.words);
      if (candidate.has_rule) text += commented_out(rule_with(begin, candidate.keys, stage));
    }
    if (group.other.empty()) return text;
    return text + comment(group.other +
                          ": no rule states them; leave such parameters out with "
                          "--exclude");
  }

  const Guess& guess_;
  bool lists_candidates_;
  Axes axes_;
  Strategy strategy_;
  std::vector<LayerPlacement> placements_;
  std::vector<Group> groups_{};
  std::map<Group, std::size_t> numbers_{};
  std::map<std::string, std::size_t> group_of_{};
};

}  // namespace

void fit_into_one_matrix(Guess& guess) {
  MatrixFitter matrix(guess.devices);
  // Readings that can do without an axis come last.
  for (const bool has_form : {false, true}) {
    for (GuessedParameter& parameter : guess.parameters) {
      if (parameter.certainty != Certainty::kProven) continue;
      Reading& reading = parameter.readings.front();
      std::optional<Layout> form = optimizer_form(reading);
      if (form.has_value() != has_form) continue;
      if (shares_equally(reading.layout) && matrix.fits(reading.layout)) continue;
      if (form) {
        reading.layout = std::move(*form);
        continue;
      }
      parameter.certainty = Certainty::kOpen;
      parameter.readings.clear();
      parameter.why += "; but rules have one device matrix, and this needs other axes";
    }
  }
}

std::string guess_rules(const Guess& guess, const std::vector<std::string>& header) {
  for (const bool lists_candidates : {true, false}) {
    GuessWriter writer(guess, lists_candidates);
    std::string text = writer.write(header);
    if (text.size() > kMaxRulesBytes) continue;
    writer.check(text);
    return text;
  }
  throw Error(ErrorKind::kUnsupported, "the rules would have more than the " +
                                           std::to_string(kMaxRulesBytes) + " bytes that are read")
      .hint("give --model-config, so that fewer questions are left");
}

std::vector<std::string> open_questions(const Guess& guess) {
  std::vector<std::pair<std::string, std::vector<std::string>>> questions;
  std::map<std::string, std::size_t> known;
  for (const GuessedParameter& parameter : guess.parameters) {
    if (parameter.certainty == Certainty::kProven) continue;
    const std::string words = words_of(parameter);
    const auto [found, is_new] = known.try_emplace(words, questions.size());
    if (is_new) questions.emplace_back(words, std::vector<std::string>());
    questions[found->second].second.push_back(parameter.name);
  }
  std::vector<std::string> lines;
  lines.reserve(questions.size());
  for (const auto& [why, names] : questions) {
    lines.push_back(name_list(group_names(names), 3) + ": " + why);
  }
  return lines;
}

}  // namespace reshardfs
