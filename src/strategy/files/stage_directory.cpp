// SPDX-License-Identifier: Apache-2.0
#include "strategy/files/stage_directory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "storage/local/directory.h"
#include "strategy/files/stage_prefix.h"
#include "strategy/files/strategy_file.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

struct StageFile {
  fs::path path;
  StageLayouts layouts;
  std::vector<OperatorStrategy> operators;
};
using StageFiles = std::map<std::int64_t, StageFile>;

/// The files *.ckpt, or the files *.json, sorted by name.
std::vector<fs::path> strategy_files_in(const fs::path& directory, const SourceTreePtr& tree) {
  std::vector<fs::path> files;
  std::size_t json_files = 0;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    const fs::path name(entry.name);
    if (!entry.is_regular || entry.name.starts_with(".")) continue;
    if (!is_json_name(name) && name.extension() != ".ckpt") continue;
    if (is_json_name(name)) ++json_files;
    files.push_back(directory / name);
  }
  if (files.empty()) {
    throw Error(ErrorKind::kMissing, "holds no strategy files (looked for *.ckpt and *.json)")
        .in_file(directory.string());
  }
  if (json_files != 0 && json_files != files.size()) {
    throw Error(ErrorKind::kBadInput, "holds both *.ckpt and *.json files, expected one kind")
        .in_file(directory.string())
        .hint("name one strategy file, or keep one kind in the directory");
  }
  return files;
}

/// The files with the bytes of each, without copies of the same bytes: every rank of a stage may
/// have written one.
std::vector<std::pair<fs::path, std::string>> read_distinct(const std::vector<fs::path>& files,
                                                            const fs::path& directory,
                                                            const SourceTreePtr& tree) {
  std::map<std::string, fs::path> seen;
  std::uint64_t total = 0;
  for (const fs::path& file : files) {
    std::string bytes = read_small_file(file, kMaxStrategyBytes, tree);
    const std::uint64_t size = bytes.size();
    if (!seen.try_emplace(std::move(bytes), file).second) continue;
    total += size;
    if (total > kMaxStrategyBytes) {
      throw Error(ErrorKind::kBadInput, "holds strategy files of more than " +
                                            std::to_string(kMaxStrategyBytes) + " bytes together")
          .in_file(directory.string());
    }
  }
  std::vector<std::pair<fs::path, std::string>> distinct;
  while (!seen.empty()) {
    auto node = seen.extract(seen.begin());
    distinct.emplace_back(std::move(node.mapped()), std::move(node.key()));
  }
  std::sort(distinct.begin(), distinct.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return distinct;
}

/// The number at the end of the name: 3 of strategy_3.ckpt.
std::optional<std::int64_t> number_in_name(const fs::path& path) {
  constexpr std::size_t kMaxDigits = 6;
  const std::string stem = path.stem().string();
  const std::size_t last_other = stem.find_last_not_of("0123456789");
  const std::size_t begin = last_other == std::string::npos ? 0 : last_other + 1;
  if (begin == stem.size() || stem.size() - begin > kMaxDigits) return std::nullopt;
  return parse_number(std::string_view(stem).substr(begin));
}

std::int64_t stage_of_file(const fs::path& path, const RawStrategy& raw) {
  if (!raw.operators.empty()) return stage_of_operators(raw);
  if (const auto number = number_in_name(path)) return *number;
  throw Error(ErrorKind::kBadInput, "does not say which pipeline stage it is of")
      .hint("it has no operators; give it a name that ends in the stage, as in strategy_0.ckpt");
}

/// The first parameter that only one of two stages has, or that they lay out differently.
std::string first_difference(const StageLayouts& a, const StageLayouts& b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a == a.end()) return in_b->first;
  if (in_b == b.end()) return in_a->first;
  return std::min(in_a->first, in_b->first);
}

void add_stage_file(StageFiles& stages, const fs::path& path, RawStrategy raw) {
  if (has_stage_prefixes(raw)) {
    throw Error(ErrorKind::kBadInput, "is a strategy of all stages among files of one stage each")
        .hint("name this file, or keep it in a directory of its own");
  }
  const std::int64_t stage = stage_of_file(path, raw);
  StageFile file{path, {}, std::move(raw.operators)};
  file.layouts = layouts_of_one_stage(std::move(raw));
  const auto taken = stages.find(stage);
  if (taken == stages.end()) {
    stages.emplace(stage, std::move(file));
    return;
  }
  if (taken->second.layouts == file.layouts) return;
  throw Error(ErrorKind::kBadInput, "lays out stage " + std::to_string(stage) +
                                        " differently from '" +
                                        printable(taken->second.path.string()) + "'")
      .for_parameter(first_difference(taken->second.layouts, file.layouts));
}

Strategy strategy_of_stages(StageFiles files, const fs::path& directory) {
  std::string found;
  for (const auto& [number, file] : files) {
    found += (found.empty() ? "" : ", ") + std::to_string(number);
  }
  std::vector<StageLayouts> stages;
  std::vector<OperatorStrategy> operators;
  for (auto& [number, file] : files) {
    const auto expected = static_cast<std::int64_t>(stages.size());
    if (number != expected) {
      throw Error(ErrorKind::kBadInput, "stage " + std::to_string(expected) +
                                            " is missing: the files are of stages " + found)
          .in_file(directory.string());
    }
    stages.push_back(std::move(file.layouts));
    std::move(file.operators.begin(), file.operators.end(), std::back_inserter(operators));
  }
  try {
    return {std::move(stages), 0, false, std::move(operators)};
  } catch (Error& error) {
    error.in_file(directory.string());
    throw;
  }
}

}  // namespace

Strategy load_stage_directory(const fs::path& path, const SourceTreePtr& tree) {
  return load_stage_files(strategy_files_in(path, tree), path, tree);
}

Strategy load_stage_files(const std::vector<fs::path>& paths, const fs::path& where,
                          const SourceTreePtr& tree) {
  const auto files = read_distinct(paths, where, tree);
  if (files.size() == 1) {
    const auto& [file, bytes] = files.front();
    return strategy_of_file(file, parse_strategy_file(file, bytes));
  }
  StageFiles stages;
  for (const auto& [file, bytes] : files) {
    RawStrategy raw = parse_strategy_file(file, bytes);
    try {
      add_stage_file(stages, file, std::move(raw));
    } catch (Error& error) {
      error.in_file(file.string());
      throw;
    }
  }
  return strategy_of_stages(std::move(stages), where);
}

}  // namespace reshardfs
