// SPDX-License-Identifier: Apache-2.0
#include "strategy/derive/derive_optimizer.h"

#include <algorithm>
#include <string>

#include "reshardfs/error.h"

#include "strategy/derive/derive_cuts.h"

namespace reshardfs {
namespace {

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

}  // namespace

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

}  // namespace reshardfs
