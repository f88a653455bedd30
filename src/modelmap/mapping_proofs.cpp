// SPDX-License-Identifier: Apache-2.0
/// What the names and shapes of a source prove of variables that nobody has stated.
#include <algorithm>
#include <iterator>
#include <utility>

#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {
namespace {

using Value = Known<std::int64_t>;

/// Each round may give a value that lets the next one find another.
constexpr int kMaxRounds = 8;

/// x for which an expression that is a*x + b is `length`.
std::optional<std::int64_t> solve(const Expression& expression, const std::string& unknown,
                                  std::int64_t length, const Scope& scope) {
  const auto at = [&](std::int64_t x) {
    return expression.evaluate(
        [&](const std::string& name) { return name == unknown ? x : scope.value(name); });
  };
  try {
    const std::int64_t zero = at(0);
    const std::int64_t step = at(1) - zero;
    if (step <= 0 || length < zero || (length - zero) % step != 0) return std::nullopt;
    const std::int64_t x = (length - zero) / step;
    if (at(2) != zero + 2 * step || at(x) != length) return std::nullopt;
    return x;
  } catch (const Error&) {
    return std::nullopt;  // it divides, or goes over the range of numbers
  }
}

bool is_letter(const std::string& name) {
  return name.size() == 1 && name[0] >= 'A' && name[0] <= 'Z';
}

class Proofs {
 public:
  Proofs(const ModelMap& map, const std::vector<SourceTensor>& tensors, Direction direction,
         const std::map<std::string, std::string>& prefixes, Variables& variables)
      : map_(map),
        tensors_(tensors),
        is_forward_(direction == Direction::kForward),
        variables_(variables) {
    bare_.reserve(tensors.size());
    for (const SourceTensor& tensor : tensors) {
      const std::string_view name = tensor.name;
      bare_.push_back(name.substr(state_prefix_of(prefixes, tensor.name).size()));
    }
  }

  void run() {
    find_candidates();
    find_switches();
    for (int round = 0; round < kMaxRounds; ++round) {
      if (!any_unknown()) return;
      matches_.clear();
      find_matches();
      if (prove_switches() || prove_by_shapes() || prove_by_numbers()) continue;
      return;
    }
  }

 private:
  /// A tensor and the pattern that takes its name.
  struct Match {
    const SourceTensor* tensor = nullptr;
    std::size_t rule = 0;
    std::size_t source = 0;
    std::vector<CaptureValue> values{};  ///< by slot of the pattern
  };
  using Claims = std::map<std::string, Value>;

  const std::vector<std::size_t>& captures_of(const Match& match) {
    const MapRule& rule = map_.rules[match.rule];
    if (is_forward_) return rule.from_captures[match.source];
    to_captures_.resize(rule.to_captures);
    for (std::size_t i = 0; i < rule.to_captures; ++i) to_captures_[i] = i;
    return to_captures_;
  }

  bool is_unknown(const std::string& name) const {
    try {
      return !Scope(variables_).is_known(name) && !variables_.proven.contains(name);
    } catch (const Error&) {
      return false;  // what is wrong with it will be told where it is needed
    }
  }

  /// Names that have one value in the whole map. Others may stand for a number of each tensor. A
  /// config.json that lacks a number is not that of the model, so that nothing is made up for it.
  void find_candidates() {
    std::set<std::string> captures;
    for (const MapRule& rule : map_.rules) {
      for (const RuleCapture& capture : rule.captures) captures.insert(capture.name);
    }
    for (const std::string& name : map_.mentioned_names()) {
      const bool is_of_config = has_config_keys(name) && !variables_.config.is_read();
      const bool has_one_value = is_of_config || map_.variables.contains(name);
      if (!has_one_value || captures.contains(name) || is_letter(name)) continue;
      if (!map_.settings.contains(name)) candidates_.insert(name);
    }
  }

  /// Names of which conditions consist. Others may be misspelled.
  void find_switches() {
    const auto add = [&](const Conditions& conditions, const MapRule* rule) {
      for (const auto& condition : conditions) {
        for (const std::string& name : condition->names()) {
          const bool is_capture =
              rule != nullptr &&
              std::any_of(rule->captures.begin(), rule->captures.end(),
                          [&](const RuleCapture& capture) { return capture.name == name; });
          const bool has_values = map_.settings.contains(name) || has_config_keys(name) ||
                                  map_.variables.contains(name);
          if (has_values && !is_capture && condition->names().size() == 1) switches_.insert(name);
        }
      }
    };
    for (const MapRule& rule : map_.rules) add(rule.when, &rule);
    for (const MapAlias& alias : map_.aliases) add(alias.when, nullptr);
    for (const std::string& name : switches_) candidates_.erase(name);
  }

  /// Whether the source itself is to show it.
  bool is_shown(const std::string& name) const {
    const auto setting = map_.settings.find(name);
    return setting != map_.settings.end() && setting->second.is_shown_by(is_forward_);
  }

  bool is_open(const std::string& name) const {
    return is_shown(name) ? !variables_.shown.contains(name) : is_unknown(name);
  }

  bool any_unknown() const {
    const auto unknown = [this](const std::string& name) { return is_open(name); };
    return std::any_of(candidates_.begin(), candidates_.end(), unknown) ||
           std::any_of(switches_.begin(), switches_.end(), unknown);
  }

  void add_patterns(PatternIndex& index, const Variables& variables, std::size_t number) const {
    const Scope scope(variables);
    const auto look_up = [&](const std::string& name) { return scope.value(name); };
    const MapRule& rule = map_.rules[number];
    try {
      if (!is_forward_) return index.add({&rule.to, rule.to.offsets(look_up), number, 0});
      for (std::size_t k = 0; k < rule.from.size(); ++k) {
        index.add({&rule.from[k], rule.from[k].offsets(look_up), number, k});
      }
    } catch (const Error&) {
      // Without its variables it takes no name.
    }
  }

  /// Rules that are sure to hold, and the names that they take.
  void find_matches() {
    PatternIndex index;
    for (std::size_t i = 0; i < map_.rules.size(); ++i) {
      if (holds(map_.rules[i].when, variables_) == std::optional(true)) {
        add_patterns(index, variables_, i);
      }
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      for (PatternIndex::Match& match : index.matches(bare_[i])) {
        matches_.push_back(
            {&tensors_[i], match.entry->rule, match.entry->source, std::move(match.values)});
      }
    }
  }

  /// Nothing if the conditions depend on captures or on what is unknown.
  static std::optional<bool> holds(const Conditions& conditions, const Variables& variables) {
    const Scope scope(variables);
    bool all_known = true;
    for (const auto& condition : conditions) {
      try {
        if (scope.evaluate(*condition) == 0) return false;
      } catch (const Error&) {
        all_known = false;
      }
    }
    return all_known ? std::optional(true) : std::nullopt;
  }

  // --- by shapes

  void claim(Claims& claims, const std::string& name, std::int64_t value,
             const std::string& origin) const {
    const auto [known, is_new] = claims.emplace(name, Value::derived(value, origin));
    if (is_new || !known->second || *known->second == value) return;
    known->second = Value::unknown(
        "unknown variable '" + name + "': it is " + std::to_string(*known->second) + " by " +
        known->second.origin() + ", but " + std::to_string(value) + " by " + origin);
  }

  bool settle(Claims claims) {
    bool any = false;
    for (auto& [name, value] : claims) any = variables_.proven.emplace(name, value).second || any;
    return any;
  }

  void learn(const Match& match, const std::vector<Expression>& shape, Claims& claims) {
    if (shape.size() != match.tensor->shape.size()) return;
    const MapRule& rule = map_.rules[match.rule];
    Scope scope(variables_);
    const std::vector<std::size_t>& captures = captures_of(match);
    for (std::size_t slot = 0; slot < captures.size(); ++slot) {
      const RuleCapture& capture = rule.captures[captures[slot]];
      if (!capture.is_word) scope.bind(capture.name, match.values[slot].number);
    }
    std::set<std::size_t> done;
    for (bool any = true; any;) {
      any = false;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (done.contains(d)) continue;
        std::vector<std::string> open;
        for (const std::string& name : shape[d].names()) {
          if (!scope.is_known(name)) open.push_back(name);
        }
        if (open.empty()) done.insert(d);
        if (open.size() != 1) continue;
        const bool is_candidate = candidates_.contains(open[0]);
        if (!is_candidate && !is_letter(open[0])) continue;
        const auto value = solve(shape[d], open[0], match.tensor->shape[d], scope);
        done.insert(d);
        if (!value) continue;
        any = true;
        scope.bind(open[0], *value);
        if (is_candidate) {
          claim(claims, open[0], *value, "the shape of '" + printable(match.tensor->name) + "'");
        }
      }
    }
  }

  bool prove_by_shapes() {
    Claims claims;
    std::set<std::tuple<std::size_t, std::size_t, Shape>> learned;
    for (const Match& match : matches_) {
      const RuleBody& body = *map_.rules[match.rule].body;
      const std::vector<Expression>* shape = nullptr;
      if (is_forward_ && !body.shapes.empty()) shape = &body.shapes[match.source];
      if (!is_forward_ && body.to_shape) shape = &*body.to_shape;
      if (shape == nullptr) continue;
      if (!learned.emplace(match.rule, match.source, match.tensor->shape).second) continue;
      try {
        learn(match, *shape, claims);
      } catch (const Error&) {
        // What is wrong with a variable will be told where it is needed.
      }
    }
    return settle(std::move(claims));
  }

  // --- by the numbers in names

  bool prove_by_numbers() {
    struct Numbers {
      std::set<std::int64_t> seen{};
      std::string last{};
    };
    std::map<std::string, Numbers> numbers;
    for (const Match& match : matches_) {
      const std::vector<std::size_t>& captures = captures_of(match);
      for (std::size_t slot = 0; slot < captures.size(); ++slot) {
        const RuleCapture& capture = map_.rules[match.rule].captures[captures[slot]];
        if (!capture.range || capture.is_word || capture.range->names().size() != 1) continue;
        const std::string& name = capture.range->names()[0];
        if (capture.range->text() != name || !candidates_.contains(name) || !is_unknown(name)) {
          continue;
        }
        Numbers& found = numbers[name];
        const std::int64_t number = match.values[slot].number;
        if (found.seen.empty() || number > *found.seen.rbegin()) found.last = match.tensor->name;
        if (found.seen.size() < static_cast<std::size_t>(kMaxRange)) found.seen.insert(number);
      }
    }
    Claims claims;
    for (const auto& [name, found] : numbers) {
      const std::int64_t count = *found.seen.rbegin() + 1;
      if (count != static_cast<std::int64_t>(found.seen.size())) continue;  // one is not there
      claim(claims, name, count, "the names up to '" + printable(found.last) + "'");
    }
    return settle(std::move(claims));
  }

  // --- by names that only one reading has

  enum class Use : std::uint8_t {
    kNone,
    kTaken,   ///< by a rule
    kHidden,  ///< by an alias
  };

  /// What a value of a condition's name makes of the source.
  struct Reading {
    std::int64_t value = 0;
    std::vector<Use> uses{};  ///< by tensor
  };

  Reading read(const std::string& name, std::int64_t value) const {
    Variables variables = variables_;
    variables.shown.insert_or_assign(name, Value::stated(value, {}));
    PatternIndex rules;
    for (std::size_t i = 0; i < map_.rules.size(); ++i) {
      // What is not known otherwise may hold.
      if (holds(map_.rules[i].when, variables) != std::optional(false)) {
        add_patterns(rules, variables, i);
      }
    }
    PatternIndex aliases;
    const Scope scope(variables);
    for (const MapAlias& alias : map_.aliases) {
      if (alias.is_from != is_forward_ || holds(alias.when, variables) != std::optional(true)) {
        continue;
      }
      try {
        aliases.add({&alias.name,
                     alias.name.offsets([&](const std::string& used) { return scope.value(used); }),
                     0, 0});
      } catch (const Error&) {
        // Without its variables it takes no name.
      }
    }
    Reading reading{value, std::vector<Use>(tensors_.size(), Use::kNone)};
    const std::vector<bool>& always = taken_always();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::string_view full = tensors_[i].name;
      if (aliases.takes(full)) {
        reading.uses[i] = Use::kHidden;
      } else if (always[i] || takes(rules, i)) {
        reading.uses[i] = Use::kTaken;
      }
    }
    return reading;
  }

  /// By name or by the name without a state's prefix.
  bool takes(const PatternIndex& rules, std::size_t tensor) const {
    const std::string& name = tensors_[tensor].name;
    return takes(rules, tensor, name) ||
           (bare_[tensor] != name && takes(rules, tensor, bare_[tensor]));
  }

  /// Rules of another number of dimensions are for other forms of the tensor.
  bool takes(const PatternIndex& rules, std::size_t tensor, std::string_view name) const {
    if (is_forward_) return rules.takes(name);
    const auto all = rules.matches(name);
    return std::any_of(all.begin(), all.end(), [&](const PatternIndex::Match& match) {
      const auto& shape = map_.rules[match.entry->rule].body->to_shape;
      return !shape || shape->size() == tensors_[tensor].shape.size();
    });
  }

  /// The tensors that rules without conditions take, whatever the variables are: nearly all.
  const std::vector<bool>& taken_always() const {
    if (!always_.empty()) return always_;
    const auto is_free = [](const Pattern& pattern) {
      const auto& captures = pattern.captures();
      return std::none_of(captures.begin(), captures.end(),
                          [](const auto& capture) { return capture.offset.has_value(); });
    };
    PatternIndex rules;
    for (std::size_t i = 0; i < map_.rules.size(); ++i) {
      const MapRule& rule = map_.rules[i];
      const bool all_free =
          is_forward_ ? std::all_of(rule.from.begin(), rule.from.end(), is_free) : is_free(rule.to);
      if (rule.when.empty() && all_free) add_patterns(rules, variables_, i);
    }
    always_.resize(tensors_.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) always_[i] = takes(rules, i);
    return always_;
  }

  std::vector<std::int64_t> values_of(const std::string& name) const {
    const auto setting = map_.settings.find(name);
    if (setting == map_.settings.end() || setting->second.readings.empty()) return {0, 1};
    std::vector<std::int64_t> values;
    for (const auto& [value, words] : setting->second.readings) values.push_back(value);
    return values;
  }

  /// A reading that leaves out a tensor which another one uses is none. Of those that are left, one
  /// that reads what others take for a copy gives the same bytes if it is a copy, and the right
  /// ones if it is none.
  void prove_switch(const std::string& name, Claims& claims) const {
    std::vector<Reading> readings;
    for (const std::int64_t value : values_of(name)) readings.push_back(read(name, value));
    const auto is_used = [](Use use) { return use != Use::kNone; };
    const auto is_taken = [](Use use) { return use == Use::kTaken; };
    const auto by_any = [&](const auto& counts) {
      std::vector<bool> tensors(tensors_.size());
      for (const Reading& reading : readings) {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          if (counts(reading.uses[i])) tensors[i] = true;
        }
      }
      return tensors;
    };
    const std::vector<bool> used = by_any(is_used);
    const std::vector<bool> taken = by_any(is_taken);
    std::string evidence;
    // Those in which all of these tensors count.
    const auto keep_those = [&](const std::vector<bool>& all, const auto& counts) {
      std::vector<Reading> kept;
      for (Reading& reading : readings) {
        const std::string* missing = nullptr;  // the first by name
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (!all[i] || counts(reading.uses[i])) continue;
          if (missing == nullptr || tensors_[i].name < *missing) missing = &tensors_[i].name;
        }
        if (missing == nullptr) {
          kept.push_back(reading);
        } else if (evidence.empty()) {
          evidence = *missing;
        }
      }
      if (!kept.empty()) readings = std::move(kept);
    };
    keep_those(used, is_used);
    if (readings.size() > 1) keep_those(taken, is_taken);
    if (readings.size() != 1 || evidence.empty()) return;
    claim(claims, name, readings[0].value,
          "the source has '" + printable(evidence) + "', which no other value reads");
  }

  bool prove_switches() {
    Claims claims;
    Claims shown;
    for (const std::string& name : switches_) {
      if (is_open(name)) prove_switch(name, is_shown(name) ? shown : claims);
    }
    const std::size_t known = variables_.shown.size();
    variables_.shown.merge(shown);
    return settle(std::move(claims)) || variables_.shown.size() > known;
  }

  const ModelMap& map_;
  const std::vector<SourceTensor>& tensors_;
  bool is_forward_;
  Variables& variables_;
  std::vector<std::string_view> bare_{};  ///< the tensors' names without the prefixes of states
  mutable std::vector<bool> always_{};    ///< see taken_always(), once it was needed
  std::set<std::string> candidates_{};
  std::set<std::string> switches_{};
  std::vector<Match> matches_{};
  std::vector<std::size_t> to_captures_{};
};

}  // namespace

void MappingWork::prove_variables() {
  Proofs(map_, tensors_, direction_, prefixes_, variables_).run();
}

}  // namespace reshardfs::modelmap
