// SPDX-License-Identifier: Apache-2.0
#include "strategy/guess_rules.h"

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

#include "base/name_groups.h"
#include "base/text.h"
#include "layout/slicing.h"
#include "strategy/guess_words.h"
#include "strategy/rules_apply.h"
#include "strategy/rules_cuts.h"
#include "strategy/rules_document.h"
#include "strategy/rules_globs.h"
#include "strategy/rules_placements.h"

namespace reshardfs {
namespace {

constexpr std::size_t kCommentWidth = 98;
constexpr std::size_t kShownDevices = 8;

/// One rule, or several of which one may be right.
struct Candidate {
  std::string words;
  std::string keys;      ///< `cut`, `uneven` and `optimizer`
  bool has_rule = true;  ///< the device matrix of the file has its axes

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const Candidate&) const = default;
};

struct Group {
  Certainty certainty = Certainty::kOpen;
  std::string why;
  std::string stage;  ///< the value of `stage`; empty: the rule says nothing of it
  std::vector<Candidate> candidates;

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const Group&) const = default;
};

const char* word_of(Certainty certainty) {
  switch (certainty) {
    case Certainty::kProven:
      return "proven";
    case Certainty::kLikely:
      return "likely";
    case Certainty::kOpen:
      break;
  }
  return "open";
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

/// Lines of TOML that a '#' makes comments of. None begins with "# ", as prose does: taking away
/// all other marks gives TOML again.
std::string commented_out(const std::string& toml) {
  std::istringstream lines(toml);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    out += "#" + line.substr(line.find_first_not_of(' ')) + "\n";
  return out;
}

/// "ranks 0, 1, 2, 3 hold parts 0, 1, 0, 1"
std::string order_words(const Reading& reading) {
  std::string ranks;
  std::string parts;
  const std::size_t shown = std::min(reading.parts.size(), kShownDevices);
  for (std::size_t device = 0; device < shown; ++device) {
    ranks += (device == 0 ? "" : ", ") + std::to_string(device);
    parts += (device == 0 ? "" : ", ") + std::to_string(reading.parts[device]);
  }
  const std::string more = shown < reading.parts.size() ? ", ..." : "";
  return "ranks " + ranks + more + " of a stage hold parts " + parts + more;
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
    for (const Certainty certainty : {Certainty::kProven, Certainty::kLikely, Certainty::kOpen}) {
      for (const GuessedParameter& parameter : guess.parameters) {
        if (parameter.certainty != certainty) continue;
        if (certainty == Certainty::kOpen && has_cut_ && fits_any(parameter)) continue;
        for (const Reading& reading : parameter.readings) {
          const bool is_proven = certainty == Certainty::kProven;
          if (!add(reading.layout, is_proven ? &parameter.name : nullptr)) continue;
          has_cut_ = has_cut_ || !reading.is_whole();
          if (certainty == Certainty::kOpen) break;
        }
      }
    }
    axes_.emplace(strategy_with(layouts_, devices_));
  }

  /// Nothing if the device matrix does not have the axes.
  std::optional<CutText> text(const Layout& layout) const {
    return has(*axes_, layout) ? std::optional(cut_text(layout, *axes_)) : std::nullopt;
  }
  const CommonAxes& common() const { return *axes_; }

 private:
  /// One candidate that can be written is enough: more axes are harder to read.
  bool fits_any(const GuessedParameter& parameter) const {
    const CommonAxes axes(strategy_with(layouts_, devices_));
    return std::any_of(parameter.readings.begin(), parameter.readings.end(),
                       [&](const Reading& reading) { return has(axes, reading.layout); });
  }

  /// @param required the parameter that must have it; nullptr: it is left out if it does not fit.
  /// @return whether the device matrix has its axes now.
  bool add(const Layout& layout, const std::string* required) {
    if (std::find(layouts_.begin(), layouts_.end(), layout) != layouts_.end()) return true;
    if (std::find(refused_.begin(), refused_.end(), layout) != refused_.end()) return false;
    if (refused_.size() + layouts_.size() > kMostLayouts && required == nullptr) return false;
    std::vector<Layout> with = layouts_;
    with.push_back(layout);
    try {
      const CommonAxes axes(strategy_with(with, devices_));
      layouts_ = std::move(with);
      return true;
    } catch (Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      if (required != nullptr) throw error.for_parameter(*required);
      refused_.push_back(layout);
      return false;
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
  bool has_cut_ = false;
  std::optional<CommonAxes> axes_{};
};

class GuessWriter {
 public:
  explicit GuessWriter(const Guess& guess)
      : guess_(guess),
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
    Group group{parameter.certainty, parameter.why, {}, {}};
    for (const Reading& reading : parameter.readings) {
      group.candidates.push_back(candidate_for(reading));
    }
    if (placed_stages(placements_, parameter.name, guess_.stages) != parameter.stages) {
      group.stage = parameter.stages.size() == 1 ? std::to_string(parameter.stages.front())
                                                 : number_list(parameter.stages);
    }
    const auto [known, is_new] = numbers_.try_emplace(group, groups_.size());
    if (is_new) groups_.push_back(std::move(group));
    group_of_[parameter.name] = known->second;
  }

  Candidate candidate_for(const Reading& reading) const {
    const auto cut = axes_.text(reading.layout);
    const std::string words = reading_words(reading) + "; " + order_words(reading);
    if (!cut) return {words + "; needs other axes: " + to_string(reading.layout), {}, false};
    const bool by_optimizer = cut->optimizer != "\"none\"";
    return {words, cut->keys + (by_optimizer ? "optimizer = " + cut->optimizer + "\n" : ""), true};
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
      text += "\n" + comment(std::string(word_of(group.certainty)) + ": " + group.why);
      if (group.certainty == Certainty::kProven) {
        text += rule_with(begin, group.candidates.front().keys, stage);
        continue;
      }
      for (const Candidate& candidate : group.candidates) {
        if (group.candidates.size() > 1 || !candidate.has_rule) text += comment(candidate.words);
        if (candidate.has_rule) text += commented_out(rule_with(begin, candidate.keys, stage));
      }
      text += begin;
      text += "undecided = true\n";
    }
    return text;
  }

  const Guess& guess_;
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
  // What can be stated without an axis comes last.
  for (const bool has_form : {false, true}) {
    for (GuessedParameter& parameter : guess.parameters) {
      if (parameter.certainty != Certainty::kProven) continue;
      Reading& reading = parameter.readings.front();
      std::optional<Layout> form = optimizer_form(reading);
      if (form.has_value() != has_form || matrix.fits(reading.layout)) continue;
      if (form) {
        reading.layout = std::move(*form);
        continue;
      }
      parameter.certainty = Certainty::kOpen;
      parameter.why += "; but rules have one device matrix, and this needs other axes";
    }
  }
}

std::string guess_rules(const Guess& guess, const std::vector<std::string>& header) {
  GuessWriter writer(guess);
  std::string text = writer.write(header);
  if (text.size() > kMaxRulesBytes) {
    throw Error(ErrorKind::kUnsupported, "the rules would have " + std::to_string(text.size()) +
                                             " bytes, more than the " +
                                             std::to_string(kMaxRulesBytes) + " that are read")
        .hint("give --model-config, so that fewer questions are left");
  }
  writer.check(text);
  return text;
}

std::vector<std::string> open_questions(const Guess& guess) {
  std::vector<std::pair<std::string, std::vector<std::string>>> questions;
  std::map<std::string, std::size_t> known;
  for (const GuessedParameter& parameter : guess.parameters) {
    if (parameter.certainty != Certainty::kOpen) continue;
    const auto [found, is_new] = known.try_emplace(parameter.why, questions.size());
    if (is_new) questions.emplace_back(parameter.why, std::vector<std::string>());
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
