// SPDX-License-Identifier: Apache-2.0
#include "conversion/source_input.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/text.h"
#include "plan/source/unknown_parameters.h"
#include "strategy/rules/rules_cuts.h"

namespace reshardfs {
namespace {

using Parameters = std::vector<const SourceParameter*>;

/// "'a' [2, 3], 'b' [4] and 3 more"
std::string with_shapes(const Parameters& parameters) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(parameters.size(), kShown); ++i) {
    text += (i == 0 ? "'" : ", '") + printable(parameters[i]->name) + "' " +
            to_string(parameters[i]->holders.front().entry->shape);
  }
  if (parameters.size() <= kShown) return text;
  return text + " and " + std::to_string(parameters.size() - kShown) + " more";
}

/// What the rules of a source leave open, and what the bytes say of it.
class OpenQuestions {
 public:
  OpenQuestions(const StrategyRules& rules, std::vector<NamedShape> shapes,
                const SourceTable& table, const SourceTableOptions& options)
      : rules_(rules), shapes_(std::move(shapes)), table_(table) {
    Parameters unknown;
    for (const NamedShape& shape : rules.unknown(shapes_)) {
      const SourceParameter* parameter = table.find(shape.name);
      const bool taken = !options.takes || options.takes(shape.name);
      if (taken && is_array(parameter->dtype)) unknown.push_back(parameter);
    }
    found_ = examine_unknown(table, unknown, options.state_prefixes);
    // Where a stage is one device, whole is all that a parameter can be.
    says_something_ = table.ranks().devices() > 1;
  }

  /// @throws Error kBadInput if there is any that the bytes do not answer.
  void require_answers() const {
    if (!found_.differing.empty()) refuse_differing();
    if (!found_.constant.empty()) {
      refuse(
          found_.constant,
          "whose elements all have one value, the same on all ranks: whether each rank holds the "
          "whole or a slice cannot be told");
    }
    if (!found_.alone.empty()) refuse_alone();
  }

  const LaidOutLike& answers() const { return found_.like; }

  std::vector<std::string> warnings() const {
    if (found_.whole.empty() || !says_something_) return {};
    const bool one = found_.whole.size() == 1;
    return {"no rule of " + printable(rules_.file()) + " matches " +
            name_list(names(found_.whole), 20) + "; all ranks hold equal bytes, and " +
            (one ? "it is" : "they are") + " taken as whole; to confirm, add " +
            rule_for(found_.whole)};
  }

  std::vector<std::string> notes() const {
    if (found_.following.empty()) return {};
    return {"cut like their weights, because no rule of " + printable(rules_.file()) +
            " matches them: " + name_list(names(found_.following))};
  }

 private:
  static std::vector<std::string> names(const Parameters& parameters) {
    std::vector<std::string> names;
    for (const SourceParameter* parameter : parameters) names.push_back(parameter->name);
    return names;
  }

  /// [[rule]] match = "norm.*.weight"
  std::string rule_for(const Parameters& parameters) const {
    constexpr std::size_t kReadable = 20;
    const std::vector<std::string> list = names(parameters);
    std::vector<std::string> globs;
    for (const std::string& glob : rules_.globs_for(shapes_, {list.begin(), list.end()})) {
      const bool plain = printable(glob) == glob;
      globs.push_back(plain ? toml_string(glob) : printable(toml_string(glob)));
    }
    if (globs.size() > kReadable) return "[[rule]] with a match for them";
    return "[[rule]] match = " + (globs.size() == 1 ? globs.front() : value_list(globs));
  }

  Error error(const Parameters& parameters, const std::string& what) const {
    return Error(ErrorKind::kBadInput,
                 "no source rule matches " + with_shapes(parameters) + ", " + what)
        .in_file(rules_.file())
        .for_parameter(parameters.front()->name);
  }

  [[noreturn]] void refuse(const Parameters& parameters, const std::string& what) const {
    throw error(parameters, what)
        .hint("add " + rule_for(parameters) +
              ", with cut if it is cut, or set unmatched = \"replicate\" in [devices] if all such "
              "parameters are whole");
  }

  /// Other ranks may still be to come, of a step that is being saved.
  [[noreturn]] void refuse_alone() const {
    const std::vector<Rank> missing = table_.missing_ranks();
    if (missing.empty()) {
      refuse(found_.alone,
             "and a single rank of the stage holds it, which does not show whether it is whole or "
             "a slice");
    }
    throw Error(ErrorKind::kMissing,
                "no source rule matches " + with_shapes(found_.alone) + ", and source rank " +
                    format_rank_list(missing) +
                    " is missing, so the others do not show whether it is whole or cut")
        .in_file(rules_.file())
        .for_parameter(found_.alone.front()->name)
        .hint("bring the missing files, or add " + rule_for(found_.alone) +
              ", with cut if it is cut");
  }

  /// One rule cuts parameters of one number of dimensions.
  [[noreturn]] void refuse_differing() const {
    const auto dimensions_of = [](const SourceParameter* parameter) {
      return parameter->holders.front().entry->shape.size();
    };
    const std::size_t dimensions = dimensions_of(found_.differing.front());
    Parameters alike = found_.differing;
    std::erase_if(alike, [&](const auto* other) { return dimensions_of(other) != dimensions; });
    if (dimensions == 0) {
      throw error(found_.differing, "whose values differ between the ranks")
          .hint("add " + rule_for(alike) +
                ", because a scalar is whole, and choose the rank with --replicas; or leave it out "
                "with --exclude");
    }
    std::vector<std::string> cut(dimensions, toml_string(""));
    cut.front() = toml_string(rules_.cutting_axis());
    throw error(found_.differing, "whose slices differ between the ranks")
        .hint("add " + rule_for(alike) + ", cut = " + value_list(cut) +
              " (or whichever axes cut its dimensions)");
  }

  const StrategyRules& rules_;
  std::vector<NamedShape> shapes_;
  const SourceTable& table_;
  UnknownParameters found_;
  bool says_something_ = false;
};

}  // namespace

SourceTableResult source_table(const std::shared_ptr<const CheckpointSet>& checkpoint,
                               StrategyInput& strategy, const SourceTableOptions& options) {
  SourceTableResult result;
  const auto table_of = [&](std::optional<Strategy> laid_out) {
    return std::make_shared<const SourceTable>(checkpoint, std::move(laid_out), options.join,
                                               options.takes);
  };
  result.table = table_of(strategy.for_source(*checkpoint, options.takes));
  result.unmatched = strategy.take_warnings();
  const StrategyRules* rules = strategy.rules();
  if (rules == nullptr) return result;
  const std::vector<NamedShape> shapes = slice_shapes(*checkpoint, options.takes);
  if (rules->unknown(shapes).empty()) return result;
  const OpenQuestions questions(*rules, shapes, *result.table, options);
  questions.require_answers();
  result.warnings = questions.warnings();
  result.notes = questions.notes();
  result.table = table_of(rules->apply_to_source(shapes, questions.answers()));
  return result;
}

}  // namespace reshardfs
