// SPDX-License-Identifier: Apache-2.0
#include "strategy/files/stage_prefix.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

struct StageName {
  std::int64_t stage;
  std::string_view parameter;
};

/// Splits "<stage>-<parameter>" at its first '-'.
std::optional<StageName> split_stage_prefix(std::string_view name) {
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos || dash == 0 || dash + 1 == name.size()) return std::nullopt;
  const auto stage = parse_number(name.substr(0, dash));
  return stage ? std::optional(StageName{*stage, name.substr(dash + 1)}) : std::nullopt;
}

void insert_layout(StageLayouts& stage, std::string name, const Layout& layout) {
  const auto [position, inserted] = stage.try_emplace(std::move(name), layout);
  if (!inserted) {
    throw Error(ErrorKind::kBadInput, "appears twice in one stage").for_parameter(position->first);
  }
}

/// "0, 2, 5", cut short where a file has very many.
std::string stage_list(const std::map<std::int64_t, StageLayouts>& stages) {
  constexpr int kShown = 16;
  std::string out;
  int shown = 0;
  for (const auto& [stage, layouts] : stages) {
    if (shown++ == kShown) return out + ", ...";
    if (!out.empty()) out += ", ";
    out += std::to_string(stage);
  }
  return out;
}

}  // namespace

bool has_stage_prefixes(const RawStrategy& raw) {
  return !raw.layouts.empty() &&
         std::all_of(raw.layouts.begin(), raw.layouts.end(),
                     [](const auto& item) { return split_stage_prefix(item.first).has_value(); });
}

std::vector<StageLayouts> layouts_by_stage(RawStrategy raw) {
  std::map<std::int64_t, StageLayouts> by_number;
  for (auto& [name, layout] : raw.layouts) {
    const std::optional<StageName> split = split_stage_prefix(name);
    if (!split) throw Error(ErrorKind::kInternal, "a name without a stage").for_parameter(name);
    insert_layout(by_number[split->stage], std::string(split->parameter), *layout);
  }
  std::vector<StageLayouts> stages;
  for (auto& [number, layouts] : by_number) {
    const auto expected = static_cast<std::int64_t>(stages.size());
    if (number != expected) {
      throw Error(ErrorKind::kBadInput, "stage " + std::to_string(expected) +
                                            " is missing: the file has stages " +
                                            stage_list(by_number));
    }
    stages.push_back(std::move(layouts));
  }
  return stages;
}

StageLayouts layouts_of_one_stage(RawStrategy raw) {
  StageLayouts stage;
  for (auto& [name, layout] : raw.layouts) {
    insert_layout(stage, std::move(name), *layout);
  }
  return stage;
}

std::string name_to_write(const Strategy& strategy, std::int64_t index, const std::string& name) {
  if (!strategy.stage_prefixed() && strategy.stage_count() == 1) return name;
  return std::to_string(strategy.first_stage() + index) + "-" + name;
}

}  // namespace reshardfs
