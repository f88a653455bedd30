// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/strategy.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/strategy_rules.h"

#include "base/rank_list.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "strategy/files/stage_directory.h"
#include "strategy/files/strategy_file.h"

namespace reshardfs {
namespace {

std::int64_t checked_device_count(const std::string& name, const Layout& layout) {
  try {
    check_layout(layout);
    return device_count(layout);
  } catch (Error& error) {
    error.for_parameter(name);
    throw;
  }
}

/// The device count that all layouts agree on; nothing if they do not, or if there are none.
std::optional<std::int64_t> agreed_device_count(const std::vector<StageLayouts>& stages) {
  std::optional<std::int64_t> devices;
  bool agree = true;
  std::unordered_set<const Layout*> checked;  // parameters share them
  for (const StageLayouts& stage : stages) {
    stage.for_each_layout([&](const Layout& layout) {
      if (!agree || !checked.insert(&layout).second) return;
      try {
        const std::int64_t count = checked_device_count("", layout);
        agree = count == devices.value_or(count);
        devices = count;
      } catch (const Error&) {
        agree = false;
      }
    });
  }
  return agree ? devices : std::nullopt;
}

/// The same, or the first by name of those that do not agree.
std::int64_t common_device_count(const std::vector<StageLayouts>& stages, std::int64_t stated) {
  if (const auto agreed = agreed_device_count(stages)) return *agreed;
  std::int64_t devices = 0;
  std::string first_name;
  std::unordered_set<const Layout*> checked;  // parameters share them
  for (const StageLayouts& stage : stages) {
    for (const auto& [name, layout] : stage) {
      if (!checked.insert(&layout).second) continue;
      const std::int64_t count = checked_device_count(name, layout);
      if (devices == 0) {
        devices = count;
        first_name = name;
      }
      if (count == devices) continue;
      throw Error(ErrorKind::kBadInput, "has " + std::to_string(count) +
                                            " devices, but parameter '" + printable(first_name) +
                                            "' has " + std::to_string(devices))
          .for_parameter(name)
          .hint("every parameter of every stage must be laid out over the same number of devices");
    }
  }
  if (devices == 0 && stated == 0) throw Error(ErrorKind::kBadInput, "holds no layouts");
  return devices == 0 ? stated : devices;
}

/// Rules alone are no strategy: they say nothing about which parameters there are.
void refuse_rules(const std::filesystem::path& path) {
  if (!StrategyRules::is_rules_file(path)) return;
  throw Error(ErrorKind::kUsage, "holds rules, which need the parameters of a checkpoint")
      .in_file(path.string())
      .hint("give the checkpoint too, as 'reshardfs strategy convert --source' does");
}

}  // namespace

Strategy Strategy::load(const std::filesystem::path& path,
                        const std::filesystem::path& linkless_root) {
  return load_strategy(path, linkless_tree_of(linkless_root, path));
}

Strategy load_strategy(const std::filesystem::path& path, const SourceTreePtr& tree) {
  if (path_kind(path, tree) == PathKind::kDirectory) return load_stage_directory(path, tree);
  refuse_rules(path);
  return strategy_of_file(
      path, parse_strategy_file(path, read_small_file(path, kMaxStrategyBytes, tree)));
}

Strategy Strategy::load_stages(const std::vector<std::filesystem::path>& paths) {
  if (paths.empty()) throw Error(ErrorKind::kUsage, "no strategy file is named");
  for (const std::filesystem::path& path : paths) refuse_rules(path);
  return load_stage_files(paths, paths.front());
}

Strategy::Strategy(std::vector<StageLayouts> stages, std::int64_t first_stage, bool stage_prefixed,
                   std::vector<OperatorStrategy> operators, std::int64_t devices)
    : stages_(std::move(stages)),
      first_stage_(first_stage),
      devices_per_stage_(common_device_count(stages_, devices)),
      stage_prefixed_(stage_prefixed),
      operators_(std::move(operators)) {
  // A layout has at most as many devices.
  if (stage_count() > kMaxRanks / devices_per_stage_) {
    throw Error(ErrorKind::kBadInput, "has " + std::to_string(stage_count()) + " stages of " +
                                          std::to_string(devices_per_stage_) +
                                          " devices; the limit is " + std::to_string(kMaxRanks) +
                                          " ranks");
  }
  if (first_stage_ < 0) {
    throw Error(ErrorKind::kBadInput, std::to_string(first_stage_) + " is not a pipeline stage");
  }
  if (first_stage_ > 0 && (stage_prefixed_ || stages_.size() > 1)) {
    throw Error(ErrorKind::kBadInput,
                "stage 0 is missing: the first stage is " + std::to_string(first_stage_));
  }
}

const StageLayouts& Strategy::stage(std::int64_t index) const {
  if (index < 0 || index >= stage_count()) {
    throw Error(ErrorKind::kInternal,
                "the strategy has no stage of index " + std::to_string(index));
  }
  return stages_[static_cast<std::size_t>(index)];
}

bool Strategy::contains(const std::string& parameter) const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [&](const StageLayouts& stage) { return stage.contains(parameter); });
}

std::vector<std::int64_t> Strategy::stages_of(const std::string& parameter) const {
  std::vector<std::int64_t> holders;
  for (std::int64_t index = 0; index < stage_count(); ++index) {
    if (stage(index).contains(parameter)) holders.push_back(index);
  }
  return holders;
}

}  // namespace reshardfs
