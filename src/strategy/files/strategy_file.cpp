// SPDX-License-Identifier: Apache-2.0
#include "strategy/files/strategy_file.h"

#include <sstream>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "strategy/files/raw_strategy.h"
#include "strategy/files/stage_prefix.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kMaxStage = 1 << 20;

}  // namespace

void check_room_for_item(const RawStrategy& raw) {
  if (raw.layouts.size() + raw.operators.size() >= kMaxStrategyItems) {
    throw Error(ErrorKind::kBadInput,
                "has more than " + std::to_string(kMaxStrategyItems) + " parameters and operators");
  }
}

bool is_json_name(const std::filesystem::path& path) {
  return path.extension() == ".json";
}

bool is_manifest_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(".reshardfs-export.") && name.ends_with(".jsonl");
}

namespace {

RawStrategy read_manifest_strategy(const std::string& bytes) {
  constexpr std::size_t kLinesAbove = 2;
  std::istringstream lines(bytes);
  std::string line;
  for (std::size_t i = 0; i < kLinesAbove && std::getline(lines, line); ++i) {
    const auto json = JsonDocument::parse(line);
    const auto found = json ? json->value().find(kManifestStrategyKey) : std::nullopt;
    if (found && found->text()) return read_json_strategy(std::string(*found->text()));
  }
  throw Error(ErrorKind::kBadInput, "is the manifest of an export, which records no strategy")
      .hint("give the strategy that was its target");
}

RawStrategy read_by_name(const std::filesystem::path& path, const std::string& bytes) {
  if (is_manifest_name(path)) return read_manifest_strategy(bytes);
  return is_json_name(path) ? read_json_strategy(bytes) : read_protobuf_strategy(bytes);
}

}  // namespace

RawStrategy parse_strategy_file(const std::filesystem::path& path, const std::string& bytes) {
  try {
    RawStrategy raw = read_by_name(path, bytes);
    if (raw.layouts.empty()) throw Error(ErrorKind::kBadInput, "holds no layouts");
    return raw;
  } catch (Error& error) {
    error.in_file(path.string());
    throw;
  }
}

std::int64_t stage_of_operators(const RawStrategy& raw) {
  if (raw.operators.empty()) return 0;
  const OperatorStrategy& first = raw.operators.front();
  if (first.stage < 0 || first.stage > kMaxStage) {
    throw Error(ErrorKind::kBadInput, "operator '" + printable(first.node_name) + "' is in stage " +
                                          std::to_string(first.stage) +
                                          ", which is not a pipeline stage");
  }
  return first.stage;
}

Strategy strategy_of_file(const std::filesystem::path& path, RawStrategy raw) {
  try {
    std::vector<OperatorStrategy> operators = raw.operators;
    if (has_stage_prefixes(raw)) {
      return {layouts_by_stage(std::move(raw)), 0, true, std::move(operators)};
    }
    const std::int64_t stage = stage_of_operators(raw);
    std::vector<StageLayouts> stages;
    stages.push_back(layouts_of_one_stage(std::move(raw)));
    return {std::move(stages), stage, false, std::move(operators)};
  } catch (Error& error) {
    error.in_file(path.string());
    throw;
  }
}

}  // namespace reshardfs
