// SPDX-License-Identifier: Apache-2.0
#include "plan/source/recorded_strategy.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "layout/device_grid.h"

namespace reshardfs {
namespace {

/// Of a mesh whose axes have names: those along which data is parallel, and optimizers cut weights.
bool is_data_axis(std::string_view name) {
  constexpr std::array<std::string_view, 3> kOthers{"fsdp", "hsdp", "cp"};
  return name.starts_with("dp") || std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end();
}

class Recorder {
 public:
  Recorder(const SourceTable& source, OptimizerCut optimizer)
      : source_(source),
        optimizer_(optimizer),
        stages_(static_cast<std::size_t>(source.ranks().stages())) {}

  Strategy run() {
    for (const SourceParameter& parameter : source_.parameters()) {
      require_no_boxes(parameter);
      if (parameter.layout == nullptr || source_.catalogue().states_whole(parameter.name)) continue;
      try {
        add(parameter);
      } catch (Error& error) {
        throw error.for_parameter(parameter.name);
      }
    }
    if (optimizer_ == OptimizerCut::kApart) require_known();
    return {std::move(stages_), 0, source_.ranks().stages() > 1, {}, source_.ranks().devices()};
  }

 private:
  void add(const SourceParameter& parameter) {
    const std::int64_t devices = source_.ranks().devices();
    std::set<std::int64_t> in_stages;
    for (const SlicePlacement& placement :
         source_.catalogue().placements(parameter.name, parameter.holders)) {
      in_stages.insert(stage_of(placement, devices));
      for (const Holding& holder : placement.holders) {
        in_stages.insert(holder.file->rank.number() / devices);
      }
    }
    const Layout layout = optimizer_ == OptimizerCut::kApart ? apart(parameter) : *parameter.layout;
    for (const std::int64_t stage : in_stages) {
      stages_[static_cast<std::size_t>(stage)].insert_or_assign(parameter.name, layout);
    }
  }

  static void require_no_boxes(const SourceParameter& parameter) {
    if (!parameter.grid || parameter.grid->boxes() == nullptr) return;
    const std::size_t parts = parameter.grid->boxes()->size();
    throw Error(ErrorKind::kUnsupported, "the checkpoint records where its " +
                                             std::to_string(parts) +
                                             (parts == 1 ? " part lies" : " parts lie") +
                                             ", but not along which axes of devices it was cut")
        .for_parameter(parameter.name)
        .hint(
            "instead of sizes, give the target as rules in a .toml file: see "
            "reshardfs-strategy(5)");
  }

  /// @throws Error kUnsupported if the devices are no stage.
  static std::int64_t stage_of(const SlicePlacement& placement, std::int64_t devices) {
    const std::int64_t count = device_count(*placement.layout);
    const Rank first = placement.devices.at(0);
    std::vector<Rank> ranks;
    for (std::int64_t place = 0; place < count; ++place) {
      ranks.push_back(placement.devices.at(place));
    }
    const RankRange stage(first, count);
    const bool is_stage = count == devices && first.number() % devices == 0 &&
                          std::equal(ranks.begin(), ranks.end(), stage.begin(), stage.end());
    if (is_stage) return first.number() / devices;
    std::string order;
    for (std::size_t i = 0; i < std::min<std::size_t>(ranks.size(), 8); ++i) {
      order += (i == 0 ? "" : ", ") + to_string(ranks[i]);
    }
    throw Error(ErrorKind::kUnsupported,
                "it lies on ranks " + order + (ranks.size() > 8 ? ", ..." : "") +
                    "; a strategy has stages of equal size, with ranks in ascending order")
        .hint("mount this checkpoint without a strategy");
  }

  /// With the last axes of dimension 0 as the optimizer's, where their names say so.
  Layout apart(const SourceParameter& parameter) {
    Layout layout = *parameter.layout;
    const std::vector<std::string> names = source_.catalogue().axis_names(parameter.name);
    if (names.empty() || layout.tensor_map.empty()) {
      note_cuts(parameter.name, layout);
      return layout;
    }
    const auto place_of = [&](int axis) {
      return names.size() - 1 - static_cast<std::size_t>(axis);
    };
    // The optimizer takes axes that cut nothing, those of the model too: behind its first one all
    // are its own.
    std::vector<int>& axes = layout.tensor_map[0];
    const auto first = std::find_if(axes.begin(), axes.end(),
                                    [&](int axis) { return is_data_axis(names[place_of(axis)]); });
    std::int64_t parts = 1;
    for (auto axis = first; axis != axes.end(); ++axis) {
      parts *= layout.device_matrix[place_of(*axis)];
    }
    axes.erase(first, axes.end());
    if (parts == 1) return layout;
    layout.optimizer_shard_size = parts;
    const DeviceGrid before(*parameter.layout);
    const DeviceGrid after(layout);
    for (std::int64_t device = 0; device < before.devices(); ++device) {
      if (before.parts_of(device) == after.parts_of(device)) continue;
      throw Error(ErrorKind::kUnsupported,
                  "strategies cannot express its cut along the data-parallel axes (" +
                      to_string(*parameter.layout) + ")");
    }
    return layout;
  }

  void note_cuts(const std::string& name, const Layout& layout) {
    for (std::size_t d = 0; d < layout.tensor_map.size(); ++d) {
      const bool is_cut =
          std::any_of(layout.tensor_map[d].begin(), layout.tensor_map[d].end(), [&](int axis) {
            return layout.device_matrix[layout.device_matrix.size() - 1 -
                                        static_cast<std::size_t>(axis)] > 1;
          });
      if (!is_cut) continue;
      if (d > 0) cuts_other_dimensions_ = true;
      if (d == 0 && first_cut_.empty()) first_cut_ = name;
    }
  }

  /// Whatever else is cut over several groups of devices is refused where a target is derived.
  void require_known() const {
    if (first_cut_.empty() || cuts_other_dimensions_) return;
    throw Error(ErrorKind::kUnsupported,
                "it is cut along dimension 0, and no parameter along another one: the metadata "
                "does not state whether the model or the optimizer is parallel")
        .for_parameter(first_cut_)
        .hint("write rules for the target instead: see reshardfs-strategy(5)");
  }

  const SourceTable& source_;
  OptimizerCut optimizer_;
  std::vector<StageLayouts> stages_;
  std::string first_cut_;  ///< a parameter whose dimension 0 is cut, without names of axes
  bool cuts_other_dimensions_ = false;
};

}  // namespace

Strategy recorded_strategy(const SourceTable& source, OptimizerCut optimizer) {
  return Recorder(source, optimizer).run();
}

}  // namespace reshardfs
