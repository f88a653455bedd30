// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules_cut_text.h"

#include <algorithm>
#include <vector>

#include "reshardfs/error.h"

#include "strategy/rules_quote.h"

namespace reshardfs {
namespace {

using Lengths = std::vector<std::int64_t>;

[[noreturn]] void refuse(const Layout& layout, const std::string& what) {
  throw Error(ErrorKind::kUnsupported,
              "rules cannot say that " + what + " (" + to_string(layout) + ")")
      .hint("keep MindSpore's form of this strategy");
}

std::vector<DeviceGroup> groups_of(const Layout& layout) {
  std::vector<DeviceGroup> groups;
  for (const auto& axes : layout.tensor_map) groups.push_back(group_of(layout, axes));
  return groups;
}

/// One length for each part of dimension 0, from MindSpore's one for each slice.
Lengths lengths_of_parts(const Layout& layout, std::size_t parts) {
  Lengths slices;
  for (const auto& list : layout.param_split_shape) {
    slices.insert(slices.end(), list.begin(), list.end());
  }
  if (slices.empty()) return {};
  const std::size_t beside = std::max<std::size_t>(1, slices.size() / parts);
  Lengths lengths;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (i % beside == 0) lengths.push_back(slices[i]);
    if (slices[i] != lengths.back()) {
      refuse(layout, "slices beside each other have other lengths: " + number_list(slices));
    }
  }
  if (lengths.size() != parts) {
    refuse(layout, "dimension 0 is cut into " + std::to_string(parts) + " parts of the lengths " +
                       number_list(slices));
  }
  return lengths;
}

std::vector<DimensionSplit> splits_of(const Layout& layout,
                                      const std::vector<DeviceGroup>& groups) {
  std::vector<DimensionSplit> splits = layout.uneven;
  splits.resize(groups.size());
  for (std::size_t d = 0; d < groups.size(); ++d) {
    const std::int64_t parts = device_count(groups[d]);
    if (d == 0 && splits[d] == DimensionSplit{}) {
      splits[d].lengths = lengths_of_parts(layout, static_cast<std::size_t>(parts));
    }
    // A dimension in one part has the length that it has.
    if (parts == 1) splits[d] = {};
    const Lengths& lengths = splits[d].lengths;
    if (std::any_of(lengths.begin(), lengths.end(), [](auto length) { return length < 1; })) {
      refuse(layout, "a part is empty: " + number_list(lengths));
    }
  }
  return splits;
}

std::string axes_text(const std::vector<std::string>& names) {
  std::vector<std::string> values;
  values.reserve(names.size());
  for (const std::string& name : names) values.push_back(quoted(name));
  if (values.empty()) return "\"\"";
  return values.size() == 1 ? values.front() : value_list(values);
}

std::string split_text(const DimensionSplit& split) {
  if (split.balanced) return "\"balanced\"";
  return split.lengths.empty() ? "\"\"" : number_list(split.lengths);
}

/// @param cut whether each dimension is.
std::string uneven_line(const std::vector<DimensionSplit>& splits, const std::vector<bool>& cut) {
  bool even = true;
  bool balanced = true;
  std::vector<std::string> values;
  for (std::size_t d = 0; d < splits.size(); ++d) {
    even = even && splits[d] == DimensionSplit{};
    balanced = balanced && splits[d].balanced == cut[d];
    values.push_back(split_text(splits[d]));
  }
  if (even) return {};
  return "uneven = " + (balanced ? "\"balanced\"" : value_list(values)) + "\n";
}

std::string field_line(const Layout& layout, bool first_is_cut, bool first_is_even) {
  if (layout.field <= 1) return {};
  if (!first_is_even) refuse(layout, "dimension 0 is cut both unevenly and by fields");
  if (first_is_cut) return "field = " + std::to_string(layout.field) + "\n";
  if (layout.optimizer_shard_size == 0 || layout.optimizer_shard_size == 1) return {};
  refuse(layout,
         "the optimizer alone cuts a dimension of " + std::to_string(layout.field) + " fields");
}

std::string optimizer_text(const Layout& layout, const std::vector<DeviceGroup>& groups) {
  const std::int64_t parts = layout.optimizer_shard_size;
  // A scalar has no dimension that an optimizer could cut.
  if (parts == 0 || parts == 1 || groups.empty()) return "\"none\"";
  std::int64_t holders = device_count(layout);
  for (const DeviceGroup& group : groups) holders /= device_count(group);
  if (parts < 0) return holders == 1 ? "\"none\"" : "\"all\"";
  if (holders % parts == 0) return std::to_string(parts);
  refuse(layout, "the optimizer cuts a slice into " + std::to_string(parts) + " parts, which the " +
                     std::to_string(holders) + " that hold it cannot share equally");
}

}  // namespace

CutText cut_text(const Layout& layout, const CommonAxes& axes) {
  const std::vector<DeviceGroup> groups = groups_of(layout);
  const std::vector<DimensionSplit> splits = splits_of(layout, groups);
  std::vector<std::string> values;
  std::vector<bool> cut;
  for (const DeviceGroup& group : groups) {
    cut.push_back(!group.empty());
    values.push_back(axes_text(axes.names_of(group)));
  }
  CutText text;
  if (std::find(cut.begin(), cut.end(), true) != cut.end()) {
    text.keys = "cut = " + value_list(values) + "\n" + uneven_line(splits, cut);
  }
  if (!groups.empty()) {
    text.keys += field_line(layout, cut.front(), splits.front() == DimensionSplit{});
  }
  text.optimizer = optimizer_text(layout, groups);
  return text;
}

}  // namespace reshardfs
