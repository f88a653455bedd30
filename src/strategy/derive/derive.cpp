// SPDX-License-Identifier: Apache-2.0
/// Target strategies that differ from the source's in sizes alone.
///
/// The claim: a strategy in which every cut is over one group of devices ("tp") has the same
/// meaning, at another size of that group, over the device matrix [dp, tp]; which dimension of
/// which parameter is cut does not change. Whatever else a strategy may say is refused.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/layout.h"
#include "reshardfs/strategy.h"
#include "reshardfs/strategy_rules.h"

#include "base/text/state_names.h"
#include "base/text/text.h"
#include "strategy/derive/derive_cuts.h"
#include "strategy/derive/derive_stages.h"

namespace reshardfs {
namespace {

/// Optimizer cuts of a derived strategy.
class DerivedOptimizer {
 public:
  /// @param wanted as Layout::optimizer_shard_size; nothing: as the source.
  /// @param data_parallel of the target.
  DerivedOptimizer(const Strategy& source, std::optional<std::int64_t> wanted,
                   std::int64_t data_parallel);

  /// The optimizer_shard_size of a parameter.
  /// @param holders devices of the target that hold the same slice before this cut.
  /// @throws Error kBadInput if so many devices cannot share the number of parts.
  std::int64_t size_for(const Layout& source, std::int64_t holders) const;

 private:
  std::int64_t as_source(const Layout& source, std::int64_t holders) const;

  std::optional<std::int64_t> wanted_;
  std::int64_t data_parallel_;
  bool source_has_cuts_ = false;
};

/// Devices of the source that hold the same slice before the optimizer cut.
std::int64_t holders_of(const Layout& layout) {
  std::int64_t holders = device_count(layout);
  for (const std::vector<int>& axes : layout.tensor_map) {
    holders /= device_count(group_of(layout, axes));
  }
  return holders;
}

/// A cut into one part is none.
bool has_cut(const Layout& layout) {
  return !layout.tensor_map.empty() && layout.optimizer_shard_size != 0 &&
         layout.optimizer_shard_size != 1;
}

std::int64_t checked_parts(std::int64_t parts, std::int64_t holders) {
  if (parts <= 0 || holders % parts == 0) return parts;
  throw Error(ErrorKind::kBadInput,
              "the optimizer cut into " + std::to_string(parts) +
                  " parts cannot be shared equally by " + std::to_string(holders) +
                  (holders == 1 ? " device" : " devices") + " with the same slice")
      .hint("give opt=off, opt=on or a number that divides dp");
}

DerivedOptimizer::DerivedOptimizer(const Strategy& source, std::optional<std::int64_t> wanted,
                                   std::int64_t data_parallel)
    : wanted_(wanted), data_parallel_(data_parallel) {
  for (std::int64_t stage = 0; stage < source.stage_count(); ++stage) {
    const StageLayouts& layouts = source.stage(stage);
    source_has_cuts_ =
        source_has_cuts_ || std::any_of(layouts.begin(), layouts.end(),
                                        [](const auto& item) { return has_cut(item.second); });
  }
}

std::int64_t DerivedOptimizer::as_source(const Layout& source, std::int64_t holders) const {
  // Without data parallelism there is nothing that the optimizer would have to share.
  if (data_parallel_ == 1 || !has_cut(source)) return 0;
  const std::int64_t parts = source.optimizer_shard_size;
  if (parts == -1 || parts == holders_of(source)) return -1;
  return checked_parts(std::min(parts, holders), holders);
}

std::int64_t DerivedOptimizer::size_for(const Layout& source, std::int64_t holders) const {
  if (!wanted_) return as_source(source, holders);
  // Where the source leaves parameters out (small ones, or all but the optimizer's states), the
  // target does too.
  if (source.tensor_map.empty() || (source_has_cuts_ && !has_cut(source))) return 0;
  return checked_parts(*wanted_, holders);
}

/// The most devices of a stage.
constexpr std::int64_t kMaxDevices = 1 << 20;

std::set<std::string> names_of(const Strategy& source) {
  std::set<std::string> names;
  for (std::int64_t stage = 0; stage < source.stage_count(); ++stage) {
    for (const auto& item : source.stage(stage)) names.insert(item.first);
  }
  return names;
}

class Derivation {
 public:
  Derivation(const DerivedSizes& sizes, const Strategy& source, StageLayers stage_layers)
      : source_(source),
        stage_layers_(std::move(stage_layers)),
        group_(common_group(source)),
        source_tensor_(device_count(group_)),
        tensor_(sizes.tensor.value_or(source_tensor_)),
        data_(sizes.data.value_or(1)),
        pipeline_(sizes.pipeline.value_or(source.stage_count())),
        optimizer_(source, sizes.optimizer, data_) {
    if (tensor_ > kMaxDevices / data_) {
      throw Error(ErrorKind::kUsage, "dp times tp is more than " + std::to_string(kMaxDevices));
    }
    if (tensor_ > 1 && group_.empty()) {
      throw Error(ErrorKind::kBadInput,
                  "the source cuts no parameter, which leaves open which dimensions tp=" +
                      std::to_string(tensor_) +
                      " would cut: " + name_list(without_states(names_of(source))))
          .hint("write rules for the target instead: see reshardfs-strategy(5)");
    }
  }

  Strategy run() const {
    std::vector<StageLayouts> stages;
    for (const StageSources& sources : restage(source_, pipeline_, stage_layers_)) {
      StageLayouts& stage = stages.emplace_back();
      for (const auto& [name, from] : sources) stage.try_emplace(name, derived(name, from));
    }
    return {std::move(stages), 0, pipeline_ > 1};
  }

 private:
  /// The layout of a parameter whose source layout is that of stage `from`.
  Layout derived(const std::string& name, std::int64_t from) const {
    try {
      Layout layout = derived(source_.stage(from).at(name));
      if (pipeline_ != source_.stage_count() || !stage_layers_.empty()) {
        require_agreement(name, layout);
      }
      return layout;
    } catch (Error& error) {
      error.for_parameter(name);
      throw;
    }
  }

  /// A parameter that several stages share has one layout when it moves to others.
  void require_agreement(const std::string& name, const Layout& layout) const {
    const std::vector<std::int64_t> stages = source_.stages_of(name);
    for (const std::int64_t stage : stages) {
      if (derived(source_.stage(stage).at(name)) == layout) continue;
      throw Error(ErrorKind::kBadInput, "stages " + std::to_string(stages.front()) + " and " +
                                            std::to_string(stage) +
                                            " of the source cut it differently: " +
                                            to_string(source_.stage(stages.front()).at(name)) +
                                            "; " + to_string(source_.stage(stage).at(name)));
    }
  }

  Layout derived(const Layout& source) const {
    Layout layout;
    for (const std::int64_t size : {data_, tensor_}) {
      if (size > 1) layout.device_matrix.push_back(size);
    }
    if (layout.device_matrix.empty()) layout.device_matrix.push_back(1);
    std::int64_t holders = data_ * tensor_;
    for (const std::vector<int>& axes : source.tensor_map) {
      std::vector<int>& target = layout.tensor_map.emplace_back();
      if (tensor_ == 1 || group_of(source, axes).empty()) continue;
      target.push_back(0);
      holders /= tensor_;
    }
    layout.optimizer_shard_size = optimizer_.size_for(source, holders);
    layout.tensor_shape = source.tensor_shape;
    copy_uneven_cuts(source, layout);
    return layout;
  }

  /// Fields and balanced cuts have a meaning for any number of parts, lists of lengths have not.
  void copy_uneven_cuts(const Layout& source, Layout& layout) const {
    const auto is_cut = [&](std::size_t d) {
      return d < layout.tensor_map.size() && !layout.tensor_map[d].empty();
    };
    for (std::size_t d = 0; d < source.uneven.size(); ++d) {
      if (!is_cut(d) || source.uneven[d] == DimensionSplit{}) continue;
      if (!source.uneven[d].lengths.empty()) require_same_parts(source.uneven[d].lengths);
      layout.uneven.resize(layout.tensor_map.size());
      layout.uneven[d] = source.uneven[d];
    }
    if (!is_cut(0)) return;
    layout.field = source.field;
    std::vector<std::int64_t> lengths;
    for (const auto& list : source.param_split_shape) {
      lengths.insert(lengths.end(), list.begin(), list.end());
    }
    if (!lengths.empty()) require_same_parts(lengths);
    if (tensor_ != source_tensor_) return;
    layout.param_split_shape = source.param_split_shape;
    layout.indices_offset = source.indices_offset;
  }

  void require_same_parts(const std::vector<std::int64_t>& lengths) const {
    if (tensor_ == source_tensor_) return;
    throw Error(ErrorKind::kBadInput, "the source cuts it into parts of the lengths " +
                                          to_string(lengths) +
                                          ", and the file does not give the lengths of " +
                                          std::to_string(tensor_) + " parts")
        .hint("write rules for the target instead: see reshardfs-strategy(5)");
  }

  const Strategy& source_;
  StageLayers stage_layers_;
  DeviceGroup group_;
  std::int64_t source_tensor_;
  std::int64_t tensor_;
  std::int64_t data_;
  std::int64_t pipeline_;
  DerivedOptimizer optimizer_;
};

}  // namespace

Strategy derive_strategy(const DerivedSizes& sizes, const Strategy& source,
                         const std::vector<std::int64_t>& stage_layers) {
  if (sizes.expert) {
    throw Error(ErrorKind::kUsage, "'" + printable(sizes.text) +
                                       "': ep cannot be derived from a source strategy, which does "
                                       "not say which cuts are those of experts")
        .hint("write rules for the target instead: see reshardfs-strategy(5)");
  }
  try {
    return Derivation(sizes, source, stage_layers).run();
  } catch (Error& error) {
    error.in_file("target " + sizes.text);
    throw;
  }
}

}  // namespace reshardfs
