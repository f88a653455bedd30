// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped_parts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "layout/device_grid.h"
#include "layout/fold.h"
#include "plan/recorded_strategy.h"

namespace reshardfs {
namespace {

using modelmap::PartCount;

constexpr PartCount kUnclear{.parts = 1, .is_unclear = true};

PartCount count_parts(const Layout& layout, const Shape& full) {
  const Layout folded = fold_expanded(layout, full, /*is_slice=*/false);
  const bool is_uneven =
      !folded.uneven.empty() || !folded.param_split_shape.empty() || folded.field > 0;
  if (is_uneven) return kUnclear;
  const DeviceGrid devices(folded);
  const std::vector<std::int64_t>& splits = devices.map_splits();
  PartCount count;
  for (std::size_t d = 0; d < splits.size(); ++d) {
    if (splits[d] == 1) continue;
    if (count.parts > 1 || full[d] % splits[d] != 0) return kUnclear;
    count.parts = splits[d];
  }
  return count;
}

std::optional<PartCount> count_in_stages(const Strategy& strategy, const std::string& tensor,
                                         const Shape& full) {
  std::optional<PartCount> found;
  for (const std::int64_t stage : strategy.stages_of(tensor)) {
    const PartCount count = count_parts(strategy.stage(stage).at(tensor), full);
    if (count.is_unclear || (found && count.parts != found->parts)) return kUnclear;
    found = count;
  }
  return found;
}

/// @param recorded what the set records without the optimizer's cuts; nothing: that cannot be told.
std::optional<PartCount> count_in_source(const SourceTable& source,
                                         const std::optional<Strategy>& recorded,
                                         const std::string& tensor) {
  const SourceParameter* parameter = source.find(tensor);
  if (parameter == nullptr || !parameter->grid) return std::nullopt;
  if (parameter->layout != nullptr) {
    const Shape& full = parameter->grid->full_shape();
    if (source.strategy() != nullptr) return count_parts(*parameter->layout, full);
    if (recorded && recorded->contains(tensor)) return count_in_stages(*recorded, tensor, full);
  }
  return parameter->grid->cell_count() == 1 ? PartCount{} : kUnclear;
}

}  // namespace

modelmap::PartsOf parts_in(Strategy strategy, std::map<std::string, Shape> shapes) {
  const auto kept = std::make_shared<const Strategy>(std::move(strategy));
  return [kept, shapes = std::move(shapes)](const std::string& tensor) -> std::optional<PartCount> {
    const auto shape = shapes.find(tensor);
    if (shape == shapes.end()) return std::nullopt;
    return count_in_stages(*kept, tensor, shape->second);
  };
}

modelmap::PartsOf parts_in(std::shared_ptr<const SourceTable> source) {
  if (!source->states_layouts()) return {};
  std::optional<Strategy> recorded;
  if (source->strategy() == nullptr && source->mapped_from() == nullptr) {
    try {
      recorded = recorded_strategy(*source, OptimizerCut::kApart);
    } catch (const Error&) {
      // What is cut is unclear then.
    }
  }
  return [source = std::move(source), recorded = std::move(recorded)](const std::string& tensor) {
    return count_in_source(*source, recorded, tensor);
  };
}

}  // namespace reshardfs
