// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped/mapped_parts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "layout/device_grid.h"
#include "layout/fold.h"
#include "plan/source/recorded_strategy.h"

namespace reshardfs {
namespace {

using Parts = Known<std::int64_t>;

Parts count_parts(const Layout& layout, const Shape& full, const std::string& origin) {
  const Layout folded = fold_expanded(layout, full, /*is_slice=*/false);
  const bool is_uneven =
      !folded.uneven.empty() || !folded.param_split_shape.empty() || folded.field > 0;
  if (is_uneven) return Parts::unknown(origin + " cuts it unevenly");
  const DeviceGrid devices(folded);
  const std::vector<std::int64_t>& splits = devices.map_splits();
  std::int64_t parts = 1;
  for (std::size_t d = 0; d < splits.size(); ++d) {
    if (splits[d] == 1) continue;
    if (parts > 1) return Parts::unknown(origin + " cuts it along several dimensions");
    if (full[d] % splits[d] != 0) return Parts::unknown(origin + " cuts it unevenly");
    parts = splits[d];
  }
  return Parts::stated(parts, origin);
}

Parts count_in_stages(const Strategy& strategy, const std::string& tensor, const Shape& full,
                      const std::string& origin) {
  Parts found = Parts::unknown(origin + " says nothing of '" + printable(tensor) + "'");
  bool is_first = true;
  for (const std::int64_t stage : strategy.stages_of(tensor)) {
    const Parts count = count_parts(strategy.stage(stage).at(tensor), full, origin);
    if (!count) return count;
    if (!is_first && *count != *found) {
      return Parts::unknown(origin + " cuts it differently in different stages");
    }
    found = count;
    is_first = false;
  }
  return found;
}

/// @param recorded what the set records without the optimizer's cuts; nothing: that cannot be told.
Parts count_in_source(const SourceTable& source, const std::optional<Strategy>& recorded,
                      const std::string& tensor) {
  const SourceParameter* parameter = source.find(tensor);
  const std::string origin = source.strategy() != nullptr
                                 ? "the source strategy"
                                 : "the layout that the checkpoint records";
  if (parameter == nullptr || !parameter->grid) {
    return Parts::unknown(origin + " says nothing of '" + printable(tensor) + "'");
  }
  if (parameter->layout != nullptr) {
    const Shape& full = parameter->grid->full_shape();
    if (source.strategy() != nullptr) return count_parts(*parameter->layout, full, origin);
    if (recorded && recorded->contains(tensor)) {
      return count_in_stages(*recorded, tensor, full, origin);
    }
  }
  if (source.catalogue().states_whole(tensor)) {
    return Parts::stated(1, "the checkpoint records that each rank has the whole tensor");
  }
  return Parts::unknown("the checkpoint does not record how the training cut the tensor");
}

}  // namespace

modelmap::PartsOf parts_in(Strategy strategy, std::map<std::string, Shape> shapes) {
  const auto kept = std::make_shared<const Strategy>(std::move(strategy));
  return [kept, shapes = std::move(shapes)](const std::string& tensor) {
    const auto shape = shapes.find(tensor);
    if (shape == shapes.end()) {
      return Parts::unknown("the target strategy says nothing of '" + printable(tensor) + "'");
    }
    return count_in_stages(*kept, tensor, shape->second, "the target strategy");
  };
}

modelmap::PartsOf parts_in(std::shared_ptr<const SourceTable> source) {
  if (source->mapped_from() != nullptr) return parts_between_maps();
  if (!source->states_layouts()) {
    return [](const std::string&) {
      return Parts::unknown(
          "the source has whole tensors, which may have been joined of any number of ranks' parts; "
          "its own strategy (--src-strategy) tells, too");
    };
  }
  std::optional<Strategy> recorded;
  if (source->strategy() == nullptr) {
    try {
      recorded = recorded_strategy(*source, OptimizerCut::kApart);
    } catch (const Error&) {
      // What is cut is unknown then.
    }
  }
  return [source = std::move(source), recorded = std::move(recorded)](const std::string& tensor) {
    return count_in_source(*source, recorded, tensor);
  };
}

modelmap::PartsOf parts_of_one_rank() {
  return [](const std::string&) {
    return Parts::stated(1, "the target is one rank's: there is no --dst-strategy");
  };
}

modelmap::PartsOf parts_between_maps() {
  return [](const std::string&) {
    return Parts::unknown("how tensors between two maps are cut is unknown");
  };
}

}  // namespace reshardfs
