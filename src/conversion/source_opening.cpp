// SPDX-License-Identifier: Apache-2.0
#include "conversion/source_opening.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/state_names.h"
#include "base/text/text.h"
#include "checkpoint/completeness.h"
#include "checkpoint/source_links.h"
#include "conversion/sized_source.h"
#include "conversion/unmatched_selectors.h"
#include "format/encrypted/encrypted.h"
#include "plan/source/unknown_parameters.h"
#include "storage/local/linkless_tree.h"
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
    // In a stage of one device, every parameter is whole.
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

CheckpointOptions set_options(const SourceRequest& request) {
  CheckpointOptions options;
  options.pattern = request.pattern;
  options.step = request.step;
  options.check_crc = request.check_crc;
  options.decryption = Decryption::load_if_named(request.dec_key_file, request.dec_mode);
  options.no_symlinks = request.no_symlinks;
  options.prefix = request.prefix;
  options.state_key = request.state_key;
  options.dequantize = request.dequantize;
  options.quantize = request.quantize;
  options.model_config = request.maps.model_config;
  if (request.side.empty()) return options;
  options.prefix_option = "--" + request.side + "prefix";
  options.state_key_option = "--" + request.side + "state-key";
  return options;
}

std::shared_ptr<const CheckpointSet> open_set(const SourceRequest& request,
                                              const CheckpointOptions& options) {
  auto set = std::make_shared<CheckpointSet>(CheckpointSet::open(request.path, options));
  if (request.replicas == Replicas::kOwn) {
    // Each rank has its own, and those that are wanted have to be there alone.
    Completeness statement = set->completeness();
    statement.missing_without_layouts.clear();
    set->set_completeness(std::move(statement));
  }
  return set;
}

std::filesystem::path linkless_root(const SourceRequest& request) {
  return request.no_symlinks ? request.path : "";
}

std::vector<std::string> state_prefixes(const SourceRequest& request, const CheckpointSet& set) {
  std::vector<std::string> all = request.state_prefixes;
  all.insert(all.end(), set.state_prefixes().begin(), set.state_prefixes().end());
  return all;
}

std::vector<std::string> shown_names(const SourceRequest& request, const CheckpointSet& set) {
  Renames renames(request.renames, request.drops, state_prefixes(request, set));
  renames.settle_wrappers(set);
  std::vector<std::string> names;
  for (NamedShape& tensor : slice_shapes(set)) names.push_back(std::move(tensor.name));
  return renames.of(names);
}

SourceOpening::SourceOpening(const SourceRequest& request, StrategyInput strategy, InputsPtr inputs)
    : request_(request),
      strategy_(std::move(strategy)),
      inputs_(std::move(inputs)),
      listed_(listed_once(request.path, {}).listed),
      maps_(request.maps, request.path, linkless_root(request), listed_, inputs_),
      renames_(request.renames, request.drops, request.state_prefixes) {
  maps_.require_shared_values(request.replicas);
}

StrategyInput SourceOpening::read_strategy(const SourceRequest& request, const InputsPtr& inputs) {
  return StrategyInput(request.strategy, {}, linkless_root(request), inputs);
}

const std::shared_ptr<const CheckpointSet>& SourceOpening::open_set(bool examines_all) {
  CheckpointOptions options = options_of_set();
  options.examine_all = examines_all;
  take_set(reshardfs::open_set(request_, options));
  return set_;
}

std::shared_ptr<const CheckpointSet> SourceOpening::open_readable(SetFaults& faults,
                                                                  std::size_t threads) {
  CheckpointOptions options = options_of_set();
  options.threads = threads;
  auto set = CheckpointSet::open_readable(request_.path, options, faults);
  if (set) take_set(std::move(set));
  return set_;
}

CheckpointOptions SourceOpening::options_of_set() const {
  CheckpointOptions options = set_options(request_);
  options.listed = recording(listed_, inputs_);
  return options;
}

void SourceOpening::take_set(std::shared_ptr<const CheckpointSet> set) {
  set_ = std::move(set);
  renames_.settle_wrappers(*set_);
  if (request_.sizes.empty()) return;
  Strategy proven = sized_source(request_.sizes, *set_, maps_);
  if (inputs_) inputs_->add_derived("--src-strategy " + request_.sizes.text, sum_of(proven));
  strategy_ = StrategyInput(std::move(proven), request_.sizes.text);
}

SourceTreePtr SourceOpening::tree() const {
  if (listed_) return recording(listed_, inputs_);
  return recording(linkless_tree_of(linkless_root(request_), request_.path), inputs_);
}

bool SourceOpening::allows_unmatched() const {
  const auto ranks = strategy_.source_ranks();
  return request_.allow_unmatched || (ranks && lacks_a_stage(*set_, *ranks));
}

void SourceOpening::add_unmatched(const std::vector<std::string>& names,
                                  UnmatchedOptions& unmatched) const {
  unmatched.add_globs("--src-join", request_.join, names);
  for (std::string& line : renames_.idle(names)) unmatched.add(std::move(line));
}

std::vector<std::string> SourceOpening::state_prefixes() const {
  return set_ ? reshardfs::state_prefixes(request_, *set_) : request_.state_prefixes;
}

void SourceOpening::require_distinct_names(const NameTaker& takes) const {
  if (renames_.are_given()) renames_.require_distinct(names_in(*set_), takes);
}

std::vector<std::string> SourceOpening::unmatched_warnings() const {
  std::vector<std::string> warnings;
  if (request_.join.empty() && !renames_.are_given()) return warnings;
  UnmatchedOptions unmatched;
  add_unmatched(names_in(*set_), unmatched);
  unmatched.settle(allows_unmatched(), warnings);
  return warnings;
}

SourceTableResult SourceOpening::lay_out(const NameTaker& needed) {
  strategy_.allow_unmatched(request_.allow_unmatched);
  SourceTableResult result =
      source_table(set_, strategy_, {request_.join, needed, state_prefixes()});
  result.table = renames_.apply(result.table);
  return result;
}

SourceTableResult SourceOpening::lay_out_unread(const NameTaker& needed) {
  strategy_.allow_unmatched(request_.allow_unmatched);
  SourceTableResult result;
  result.table = std::make_shared<const SourceTable>(set_, strategy_.for_source(*set_, needed),
                                                     request_.join, needed);
  result.table = renames_.apply(result.table);
  result.unmatched = strategy_.take_warnings();
  return result;
}

std::shared_ptr<const SourceTable> SourceOpening::preview(const NameTaker& needed) const {
  return renames_.apply(std::make_shared<const SourceTable>(set_, strategy_.preview(*set_, needed),
                                                            request_.join, needed));
}

StatedLayouts SourceOpening::state_layouts(const NameTaker& needed, bool allows_unmatched,
                                           std::vector<std::string>& warnings) {
  strategy_.allow_unmatched(allows_unmatched);
  StatedLayouts stated = stated_layouts(*set_, strategy_.for_source(*set_, needed), request_.join);
  for (std::string& line : strategy_.take_warnings()) warnings.push_back(std::move(line));
  return stated;
}

MappedSourceOptions SourceOpening::mapped_options(bool weights_only) const {
  MappedSourceOptions options;
  options.source_has_rules = strategy_.is_rules();
  options.state_prefixes = state_prefixes();
  if (weights_only) {
    options.leaves_out = [prefixes = options.state_prefixes](const std::string& name) {
      return is_training_state(name, prefixes);
    };
  }
  return options;
}

}  // namespace reshardfs
