// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules_convert.h"

#include "reshardfs/error.h"

#include "strategy/derive_cuts.h"

namespace reshardfs {
namespace {

Error not_expressible(const std::string& parameter, const std::string& what) {
  return Error(ErrorKind::kUnsupported, "MindSpore's strategy files cannot say that " + what)
      .for_parameter(parameter)
      .hint("use the file of rules itself");
}

/// param_split_shape has a length for each distinct slice, and dimension 0 varies slowest.
std::vector<std::int64_t> lengths_of_slices(const Layout& layout) {
  std::int64_t beside = 1;
  for (std::size_t d = 1; d < layout.tensor_map.size(); ++d) {
    beside *= device_count(group_of(layout, layout.tensor_map[d]));
  }
  std::vector<std::int64_t> lengths;
  for (const std::int64_t length : layout.uneven.front().lengths) {
    lengths.insert(lengths.end(), static_cast<std::size_t>(beside), length);
  }
  return lengths;
}

}  // namespace

Layout mindspore_layout(const Layout& layout, const std::string& parameter) {
  Layout result = layout;
  result.uneven.clear();
  for (std::size_t d = 0; d < layout.uneven.size(); ++d) {
    const DimensionSplit& split = layout.uneven[d];
    if (split.balanced) {
      throw not_expressible(parameter, "dimension " + std::to_string(d) + " is cut 'balanced'");
    }
    if (split.lengths.empty()) continue;
    if (d > 0) {
      throw not_expressible(parameter, "dimension " + std::to_string(d) +
                                           " is cut unevenly (only dimension 0 can be)");
    }
    result.param_split_shape = {lengths_of_slices(layout)};
  }
  return result;
}

}  // namespace reshardfs
