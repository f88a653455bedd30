// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules_axes.h"

#include <algorithm>
#include <map>
#include <optional>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// A parameter, and how a stage lays it out.
struct Example {
  std::string name;
  const Layout* layout = nullptr;
};

/// Calls `use` with each parameter and layout of each stage.
template <typename Use>
void each_layout(const Strategy& strategy, const Use& use) {
  for (std::int64_t stage = 0; stage < strategy.stage_count(); ++stage) {
    for (const auto& [name, layout] : strategy.stage(stage)) use(name, layout);
  }
}

[[noreturn]] void refuse(std::int64_t block, const Example& example, std::int64_t other_block,
                         const Example& other) {
  throw Error(ErrorKind::kUnsupported,
              "rules have the same axes for all parameters, but its layout (" +
                  to_string(*example.layout) + ") needs axes of blocks of " +
                  std::to_string(block) + " devices, and that of '" + printable(other.name) +
                  "' (" + to_string(*other.layout) + ") of " + std::to_string(other_block))
      .for_parameter(example.name)
      .hint("keep MindSpore's form of this strategy");
}

/// Devices that stand side by side form blocks: an axis of stride s and size n has blocks of s
/// devices inside blocks of s * n. Axes fit in one device matrix if all block sizes divide each
/// other.
class Blocks {
 public:
  explicit Blocks(std::int64_t devices) : sizes_{{1, {}}, {devices, {}}} {}

  void add(std::int64_t size, const Example& example) {
    const auto above = sizes_.lower_bound(size);
    if (above->first == size) return;
    const auto below = std::prev(above);
    // Those of 1 and of all devices fit always, so that the others have examples.
    if (size % below->first != 0) refuse(size, example, below->first, below->second);
    if (above->first % size != 0) refuse(size, example, above->first, above->second);
    sizes_.emplace_hint(above, size, example);
  }

  std::vector<CommonAxes::Axis> axes() const {
    std::vector<CommonAxes::Axis> axes;
    for (auto inner = sizes_.begin(); std::next(inner) != sizes_.end(); ++inner) {
      axes.push_back({{}, inner->first, std::next(inner)->first / inner->first});
    }
    if (axes.empty()) axes.push_back({});  // a single device
    std::reverse(axes.begin(), axes.end());
    return axes;
  }

 private:
  std::map<std::int64_t, Example> sizes_;
};

/// The device matrix of all layouts, if they have the same.
std::optional<std::vector<std::int64_t>> single_matrix(const Strategy& strategy) {
  std::optional<std::vector<std::int64_t>> matrix;
  bool same = true;
  each_layout(strategy, [&](const std::string&, const Layout& layout) {
    if (!matrix) matrix = layout.device_matrix;
    same = same && layout.device_matrix == *matrix;
  });
  return same ? matrix : std::nullopt;
}

std::vector<CommonAxes::Axis> axes_of(const std::vector<std::int64_t>& matrix) {
  std::vector<CommonAxes::Axis> axes;
  std::int64_t stride = 1;
  for (auto size = matrix.rbegin(); size != matrix.rend(); ++size) {
    axes.push_back({{}, stride, *size});
    stride *= *size;
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

}  // namespace

CommonAxes::CommonAxes(const Strategy& strategy) {
  const auto matrix = single_matrix(strategy);
  // An empty one is a single device too, but [devices] needs an axis.
  if (matrix && !matrix->empty()) {
    axes_ = axes_of(*matrix);
  } else {
    Blocks blocks(strategy.devices_per_stage());
    each_layout(strategy, [&](const std::string& name, const Layout& layout) {
      for (const std::vector<int>& dimension : layout.tensor_map) {
        for (const DeviceAxis& axis : group_of(layout, dimension)) {
          blocks.add(axis.stride, {name, &layout});
          blocks.add(axis.stride * axis.size, {name, &layout});
        }
      }
    });
    axes_ = blocks.axes();
  }
  name_axes(strategy);
}

bool CommonAxes::is_cut(const Axis& axis, const Strategy& strategy) const {
  bool cut = false;
  each_layout(strategy, [&](const std::string&, const Layout& layout) {
    for (const std::vector<int>& dimension : layout.tensor_map) {
      for (const DeviceAxis& part : group_of(layout, dimension)) {
        cut = cut || (axis.size > 1 && part.stride <= axis.stride &&
                      axis.stride < part.stride * part.size);
      }
    }
  });
  return cut;
}

/// "tp" for the axis that cuts, "dp" for the other; numbered if there are several. A strategy does
/// not say what its axes are for.
void CommonAxes::name_axes(const Strategy& strategy) {
  std::vector<Axis*> cut;
  std::vector<Axis*> uncut;
  for (Axis& axis : axes_) (is_cut(axis, strategy) ? cut : uncut).push_back(&axis);
  const auto name = [](const std::vector<Axis*>& axes, const char* one, const char* several) {
    if (axes.size() == 1) axes.front()->name = one;
    if (axes.size() == 1) return;
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i]->name = several + std::to_string(i + 1);
  };
  name(cut, "tp", "mp");
  name(uncut, "dp", "dp");
}

std::vector<std::string> CommonAxes::names_of(const DeviceGroup& group) const {
  std::vector<std::string> names;
  for (const DeviceAxis& part : group) {
    for (const Axis& axis : axes_) {
      const bool inside = part.stride <= axis.stride && axis.stride < part.stride * part.size;
      if (inside && axis.size > 1) names.push_back(axis.name);
    }
  }
  return names;
}

}  // namespace reshardfs
