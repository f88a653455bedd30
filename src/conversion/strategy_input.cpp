// SPDX-License-Identifier: Apache-2.0
#include "conversion/strategy_input.h"

#include <set>

#include "reshardfs/error.h"

#include "checkpoint/recognition.h"
#include "plan/source/recorded_strategy.h"
#include "storage/local/linkless_tree.h"
#include "strategy/files/strategy_file.h"
#include "strategy/rules/rules_apply.h"

namespace reshardfs {
namespace {

/// Rules lay out what the source lays out. A parameter without a layout there (learning_rate, ...)
/// has no known full shape, and stays one without a layout: kept where all ranks are equal.
std::vector<NamedShape> full_shapes(const SourceTable& source, const NameMap& names) {
  std::vector<NamedShape> shapes;
  for (const SourceParameter& parameter : source.parameters()) {
    if (!parameter.grid) continue;
    shapes.push_back({names.target(parameter.name), parameter.grid->full_shape()});
  }
  return shapes;
}

/// All that rules may mean, laid out or not.
std::vector<NamedShape> all_names(const SourceTable& source, const NameMap& names) {
  std::vector<NamedShape> all;
  for (const SourceParameter& parameter : source.parameters()) {
    all.push_back({names.target(parameter.name), {}});
  }
  for (const RefusedTensor& tensor : source.checkpoint().refused()) {
    all.push_back({names.target(tensor.name), {}});
  }
  return all;
}

Strategy renamed(const Strategy& strategy, const NameMap& names) {
  std::vector<StageLayouts> stages;
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) {
    StageLayouts& layouts = stages.emplace_back();
    for (const auto& [name, layout] : strategy.stage(s)) {
      layouts.insert_or_assign(names.target(name), layout);
    }
  }
  return {std::move(stages), strategy.first_stage(), strategy.stage_prefixed(),
          strategy.operators()};
}

}  // namespace

StrategyInput::StrategyInput(const std::optional<std::filesystem::path>& path, DerivedSizes sizes,
                             const std::filesystem::path& linkless_root, const InputsPtr& inputs)
    : sizes_(std::move(sizes)) {
  if (!path) return;
  file_ = path->string();
  const SourceTreePtr tree = recording(linkless_tree_of(linkless_root, *path), inputs);
  if (StrategyRules::is_rules_file(*path)) {
    rules_ = StrategyRules::parse(file_, read_small_file(*path, kMaxRulesBytes, tree));
  } else {
    strategy_ = load_named_strategy(*path, tree);
  }
}

std::optional<RankRange> StrategyInput::ranks() const {
  if (rules_) return RankRange(Rank(), rules_->rank_count());
  if (!strategy_) return std::nullopt;
  return RankRange(Rank(strategy_->first_stage() * strategy_->devices_per_stage()),
                   strategy_->rank_count());
}

std::optional<SourceRanks> StrategyInput::source_ranks() const {
  const std::optional<RankRange> all = ranks();
  if (!all) return std::nullopt;
  const std::int64_t stages = rules_ ? rules_->stage_count() : strategy_->stage_count();
  return SourceRanks(*all, all->size() / stages);
}

std::string StrategyInput::words_for(const std::string& name) const {
  if (!sizes_.empty()) return "sizes '" + printable(sizes_.text) + "'";
  if (rules_) return "rules of " + printable(file_);
  if (!strategy_) return "whole on one rank";
  const std::vector<std::int64_t> stages = strategy_->stages_of(name);
  return stages.empty() ? "no layout" : to_string(strategy_->stage(stages.front()).at(name));
}

bool lacks_a_stage(const CheckpointSet& checkpoint, const SourceRanks& ranks) {
  if (ranks.stages() < 2) return false;
  std::set<std::int64_t> held;
  for (const RankFile& file : checkpoint.files()) held.insert(ranks.stage_of(file.rank));
  for (std::int64_t stage = 0; stage < ranks.stages(); ++stage) {
    if (!held.contains(stage)) return true;
  }
  return false;
}

std::vector<NamedShape> slice_shapes(const CheckpointSet& checkpoint, const NameTaker& takes) {
  std::vector<NamedShape> shapes;
  std::set<std::string_view> seen;
  const FileIndex* before = nullptr;
  for (const RankFile& file : checkpoint.files()) {
    // The files of a stage share an index.
    if (file.index.get() == before) continue;
    before = file.index.get();
    for (const TensorEntry& entry : file.index->entries()) {
      if (entry.dtype == DType::kString || !seen.insert(entry.name).second) continue;
      if (takes && !takes(entry.name)) continue;
      shapes.push_back({entry.name, entry.shape});
    }
  }
  return shapes;
}

void StrategyInput::check_rules(const std::vector<NamedShape>& parameters, bool lacks_stages) {
  if (!allows_unmatched_ && !lacks_stages) return rules_->require_matched(parameters);
  for (const std::string& line : rules_->unmatched(parameters)) {
    warnings_.push_back(printable(file_) + ": " + line);
  }
}

std::optional<Strategy> StrategyInput::for_source(const CheckpointSet& checkpoint,
                                                  const NameTaker& takes) {
  if (rules_) {
    check_rules(slice_shapes(checkpoint), lacks_a_stage(checkpoint, *source_ranks()));
    return rules_->apply_to_source(slice_shapes(checkpoint, takes));
  }
  return std::exchange(strategy_, std::nullopt);
}

std::optional<Strategy> StrategyInput::preview(const CheckpointSet& checkpoint,
                                               const NameTaker& takes) const {
  if (rules_) return rules_->apply_to_source(slice_shapes(checkpoint, takes));
  return strategy_;
}

std::optional<Strategy> StrategyInput::layouts_of(const std::vector<NamedShape>& tensors) const {
  if (rules_) return rules_->apply(tensors);
  return strategy_;
}

std::optional<Strategy> StrategyInput::for_target(const SourceTable& source, const NameMap& names) {
  if (!sizes_.empty()) {
    if (source.strategy() == nullptr && source.states_layouts()) {
      try {
        const Strategy recorded = recorded_strategy(source, OptimizerCut::kApart);
        return renamed(derive_strategy(sizes_, recorded, stage_layers_), names);
      } catch (Error& error) {
        throw error.in_file(source.checkpoint().root().string());
      }
    }
    if (source.strategy() == nullptr) {
      throw Error(ErrorKind::kUsage, "the target '" + printable(sizes_.text) +
                                         "' cannot be derived without a source strategy")
          .hint("give --src-strategy, or write rules (see reshardfs-strategy(5))");
    }
    return renamed(derive_strategy(sizes_, *source.strategy(), stage_layers_), names);
  }
  if (rules_) {
    check_rules(all_names(source, names), lacks_a_stage(source.checkpoint(), source.ranks()));
    return rules_->apply(full_shapes(source, names));
  }
  return std::exchange(strategy_, std::nullopt);
}

Strategy load_named_strategy(const std::filesystem::path& path, const SourceTreePtr& tree) {
  try {
    return load_strategy(path, tree);
  } catch (const Error& error) {
    const bool is_content =
        error.kind() == ErrorKind::kBadInput || error.kind() == ErrorKind::kMissing;
    if (!is_content || !is_checkpoint(path)) throw;
    throw Error(ErrorKind::kUsage, "is a checkpoint, not a strategy")
        .in_file(path.string())
        .needs(Need::kSourceStrategy)
        .hint("name the strategy file that the training job wrote (strategy_ckpt_config)");
  }
}

}  // namespace reshardfs
