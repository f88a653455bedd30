// SPDX-License-Identifier: Apache-2.0
#include "strategy/derive/derive_cuts.h"

#include <algorithm>
#include <set>
#include <string>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

/// A group, as the first parameter that is cut over it states it, and who is cut over it.
struct GroupUse {
  DeviceGroup group;
  std::string description;
  std::set<std::string> parameters;
};

/// More are as ambiguous, and would only cost time.
constexpr std::size_t kMaxGroups = 16;

std::string describe(const Layout& layout, const std::vector<int>& axes) {
  std::string text = axes.size() == 1 ? "axis " : "axes ";
  for (const int axis : axes) {
    if (axis != axes.front()) text += ", ";
    text += std::to_string(axis);
  }
  return text + " of the device matrix " + to_string(layout.device_matrix);
}

void note_use(std::vector<GroupUse>& uses, const DeviceGroup& group, const std::string& name,
              const Layout& layout, const std::vector<int>& axes) {
  auto use = std::find_if(uses.begin(), uses.end(),
                          [&](const GroupUse& known) { return known.group == group; });
  if (use == uses.end()) use = uses.insert(uses.end(), {group, describe(layout, axes), {}});
  use->parameters.insert(name);
}

[[noreturn]] void refuse(const std::vector<GroupUse>& uses) {
  constexpr std::size_t kShown = 5;
  const std::size_t names_each = std::max<std::size_t>(1, kShown / uses.size());
  std::string text = "its parameters are cut over " + std::to_string(uses.size()) +
                     " different axes, so a single tp is ambiguous (axes are counted from the "
                     "last, as in tensor maps):";
  for (std::size_t i = 0; i < std::min(uses.size(), kShown); ++i) {
    text += (i == 0 ? " " : "; ") + uses[i].description + " cuts " +
            name_list(without_states(uses[i].parameters), names_each);
  }
  throw Error(ErrorKind::kBadInput, text)
      .hint("write rules for the target instead: see reshardfs-strategy(5)");
}

}  // namespace

DeviceGroup group_of(const Layout& layout, const std::vector<int>& axes) {
  DeviceGroup group;
  for (const int axis : axes) {
    const auto end = layout.device_matrix.end();
    const auto own = end - 1 - axis;
    if (*own == 1) continue;
    std::int64_t stride = 1;
    std::for_each(own + 1, end, [&](std::int64_t size) { stride *= size; });
    if (!group.empty() && group.back().stride == stride * *own) {
      group.back() = {stride, group.back().size * *own};
    } else {
      group.push_back({stride, *own});
    }
  }
  return group;
}

std::int64_t device_count(const DeviceGroup& group) {
  std::int64_t count = 1;
  for (const DeviceAxis& axis : group) count *= axis.size;
  return count;
}

DeviceGroup common_group(const Strategy& strategy) {
  std::vector<GroupUse> uses;
  for (std::int64_t stage = 0; stage < strategy.stage_count(); ++stage) {
    for (const auto& [name, layout] : strategy.stage(stage)) {
      for (const std::vector<int>& axes : layout.tensor_map) {
        const DeviceGroup group = group_of(layout, axes);
        if (!group.empty() && uses.size() < kMaxGroups) note_use(uses, group, name, layout, axes);
      }
    }
  }
  if (uses.size() > 1) refuse(uses);
  return uses.empty() ? DeviceGroup{} : uses.front().group;
}

}  // namespace reshardfs
