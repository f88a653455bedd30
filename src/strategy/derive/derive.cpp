// SPDX-License-Identifier: Apache-2.0
/// Target strategies that differ from the source's in sizes alone.
///
/// The claim: a strategy in which every cut is over one group of devices ("tp") has the same
/// meaning, at another size of that group, over the device matrix [dp, tp]; which dimension of
/// which parameter is cut does not change. Whatever else a strategy may say is refused.
#include <set>
#include <string>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/strategy_rules.h"

#include "base/text/text.h"
#include "strategy/derive/derive_cuts.h"
#include "strategy/derive/derive_names.h"
#include "strategy/derive/derive_optimizer.h"
#include "strategy/derive/derive_stages.h"

namespace reshardfs {
namespace {

/// As many as a stage may have.
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
