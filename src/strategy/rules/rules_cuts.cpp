// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules/rules_cuts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/utf8.h"

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

[[noreturn]] void refuse_axes(std::int64_t block, const Example& example, std::int64_t other_block,
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
    if (size % below->first != 0) refuse_axes(size, example, below->first, below->second);
    if (above->first % size != 0) refuse_axes(size, example, above->first, above->second);
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

/// The coarsest axes that have those of all cuts.
std::vector<CommonAxes::Axis> axes_of_cuts(const Strategy& strategy) {
  Blocks blocks(strategy.devices_per_stage());
  const auto add = [&blocks](const std::string& name, const Layout& layout,
                             const std::vector<int>& dimension) {
    for (const DeviceAxis& axis : group_of(layout, dimension)) {
      blocks.add(axis.stride, {name, &layout});
      blocks.add(axis.stride * axis.size, {name, &layout});
    }
  };
  each_layout(strategy, [&add](const std::string& name, const Layout& layout) {
    for (const std::vector<int>& dimension : layout.tensor_map) add(name, layout, dimension);
  });
  return blocks.axes();
}

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
  std::for_each(matrix.rbegin(), matrix.rend(), [&](std::int64_t size) {
    axes.push_back({{}, stride, size});
    stride *= size;
  });
  std::reverse(axes.begin(), axes.end());
  return axes;
}

std::string escaped(char c) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (c == '"' || c == '\\') return std::string("\\") + c;
  if (!is_control_byte(c)) return std::string(1, c);
  const auto byte = static_cast<unsigned char>(c);
  return std::string("\\u00") + kDigits[byte >> 4U] + kDigits[byte & 0xFU];
}

using Lengths = std::vector<std::int64_t>;

[[noreturn]] void refuse(const Layout& layout, const std::string& what) {
  throw Error(ErrorKind::kUnsupported,
              "rules cannot express that " + what + " (" + to_string(layout) + ")")
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
      refuse(layout, "neighboring slices have different lengths: " + number_list(slices));
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
  for (const std::string& name : names) values.push_back(toml_string(name));
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

std::string toml_string(const std::string& text) {
  const bool has_backslash = text.find('\\') != std::string::npos;
  const bool is_literal = text.find('\'') == std::string::npos &&
                          std::none_of(text.begin(), text.end(), is_control_byte);
  // Globs with escapes are easier to read without escapes of their escapes.
  if (has_backslash && is_literal) return "'" + text + "'";
  std::string out = "\"";
  for (const char c : text) out += escaped(c);
  return out + "\"";
}

std::string number_list(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> values;
  values.reserve(numbers.size());
  for (const std::int64_t number : numbers) values.push_back(std::to_string(number));
  return value_list(values);
}

std::string value_list(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "" : ", ") + value;
  return "[" + out + "]";
}

std::string commented_out(const std::string& toml) {
  std::istringstream lines(toml);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    out += "#" + line.substr(line.find_first_not_of(' ')) + "\n";
  return out;
}

CommonAxes::CommonAxes(const Strategy& strategy) {
  const auto matrix = single_matrix(strategy);
  // An empty one is a single device too, but [devices] needs an axis.
  if (matrix && !matrix->empty()) {
    axes_ = axes_of(*matrix);
  } else {
    axes_ = axes_of_cuts(strategy);
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
