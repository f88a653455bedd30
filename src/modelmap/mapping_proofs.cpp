// SPDX-License-Identifier: Apache-2.0
/// What the names and shapes of a source prove of variables that nobody has stated.
#include <algorithm>
#include <iterator>
#include <utility>

#include "modelmap/mapping_work.h"
#include "modelmap/switch_proofs.h"

namespace reshardfs::modelmap {
namespace {

/// Each round may give a value that lets the next one find another.
constexpr int kMaxRounds = 8;

/// x for which an expression that is a*x + b is `length`.
std::optional<std::int64_t> solve(const Expression& expression, const std::string& unknown,
                                  std::int64_t length, const Scope& scope) {
  const auto at = [&](std::int64_t x) {
    NameLookup lookup = scope.lookup();
    lookup.value = [&](const std::string& name) { return name == unknown ? x : scope.value(name); };
    return expression.evaluate(lookup);
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
  Proofs(const SourceNames& names, Variables& variables)
      : map_(names.map),
        names_(names),
        is_forward_(names.is_forward),
        variables_(variables),
        switches_(names, variables) {}

  void run() {
    find_candidates();
    for (int round = 0; round < kMaxRounds; ++round) {
      if (!any_unknown()) return;
      matches_.clear();
      find_matches();
      if (switches_.prove() || prove_by_shapes() || prove_by_numbers()) continue;
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

  const std::vector<std::size_t>& captures_of(const Match& match) const {
    return map_.rules[match.rule].captures_read(is_forward_, match.source);
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
      if (map_.settings.contains(name) || switches_.names().contains(name)) continue;
      candidates_.insert(name);
    }
  }

  bool any_unknown() const {
    return switches_.any_open() ||
           std::any_of(candidates_.begin(), candidates_.end(),
                       [this](const std::string& name) { return is_unknown(name, variables_); });
  }

  /// Rules that are sure to hold, and the names that they take.
  void find_matches() {
    PatternIndex index;
    for (std::size_t i = 0; i < map_.rules.size(); ++i) {
      if (holds(map_.rules[i].when, variables_) == std::optional(true)) {
        add_patterns(index, names_, variables_, i);
      }
    }
    for (std::size_t i = 0; i < names_.tensors.size(); ++i) {
      for (PatternIndex::Match& match : index.matches(names_.bare[i])) {
        matches_.push_back(
            {&names_.tensors[i], match.entry->rule, match.entry->source, std::move(match.values)});
      }
    }
  }

  // --- by shapes

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
    return settle(std::move(claims), variables_);
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
        if (capture.range->text() != name || !candidates_.contains(name) ||
            !is_unknown(name, variables_)) {
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
    return settle(std::move(claims), variables_);
  }

  const ModelMap& map_;
  const SourceNames& names_;
  bool is_forward_;
  Variables& variables_;
  SwitchProofs switches_;
  std::set<std::string> candidates_{};
  std::vector<Match> matches_{};
};

}  // namespace

void MappingWork::prove_variables() {
  SourceNames names{map_, tensors_, {}, direction_ == Direction::kForward};
  names.bare.reserve(tensors_.size());
  for (const SourceTensor& tensor : tensors_) {
    const std::string_view name = tensor.name;
    names.bare.push_back(name.substr(state_prefix_of(prefixes_, tensor.name).size()));
  }
  Proofs(names, variables_).run();
}

}  // namespace reshardfs::modelmap
