// SPDX-License-Identifier: Apache-2.0
#include "conversion/source_opening.h"

#include <utility>

#include "base/text/state_names.h"
#include "checkpoint/completeness.h"
#include "checkpoint/source_links.h"
#include "conversion/sized_source.h"
#include "conversion/unmatched_selectors.h"
#include "format/encrypted/encrypted.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {

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

std::vector<std::string> shown_names(const SourceRequest& request, const CheckpointSet& set) {
  Renames renames(request.renames, request.drops, request.state_prefixes);
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
      source_table(set_, strategy_, {request_.join, needed, request_.state_prefixes});
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
  options.state_prefixes = request_.state_prefixes;
  if (weights_only) {
    options.leaves_out = [prefixes = options.state_prefixes](const std::string& name) {
      return is_training_state(name, prefixes);
    };
  }
  return options;
}

}  // namespace reshardfs
