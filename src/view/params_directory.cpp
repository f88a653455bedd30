// SPDX-License-Identifier: Apache-2.0
#include "view/params_directory.h"

#include <deque>
#include <set>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/file_name.h"
#include "base/rank_json.h"
#include "base/text.h"
#include "view/npy_file.h"
#include "view/text_file.h"
#include "view/text_value.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

/// The source's pipeline stages in which it is.
std::set<std::int64_t> stages_of(const SourceTable& source, const SourceParameter& parameter) {
  std::set<std::int64_t> stages;
  for (const Holding& holder : parameter.holders) {
    stages.insert(source.ranks().stage_of(holder.file->rank));
  }
  return stages;
}

std::set<Rank> source_ranks(const TensorView& view) {
  std::set<Rank> ranks;
  view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
    if (holding && bytes > 0) ranks.insert(holding.file->rank);
  });
  return ranks;
}

Json describe(const TargetTable& target, Rank rank, const TargetParameter& parameter,
              const std::string& file) {
  Json json{
      {"name", parameter.name}, {"file", nullptr}, {"dtype", plain_dtype_name(parameter.dtype)}};
  if (!file.empty()) json["file"] = file;
  json["shape"] = is_array(parameter.dtype) ? target.slice_shape(parameter, rank) : Shape{};
  json["stages"] = stages_of(target.source(), *parameter.source);
  json["source_ranks"] = source_ranks(target.view(parameter, rank));
  if (const auto value = text_value(parameter)) json["value"] = *value;
  return json;
}

/// Linux takes paths of 4095 bytes. What is left is for the mount point: one path that is too long
/// to be opened would fail whoever lists or copies the whole directory.
constexpr std::size_t kMaxPathBytes = 3072;
constexpr std::size_t kShownColumns = 40;

/// Relative to the list; empty for what is no array, and for what has no place.
std::string path_of(const TargetParameter& parameter) {
  if (!is_array(parameter.dtype)) return {};
  std::string path =
      "params/" + to_file_path(parameter.name) + std::string(kParameterFileExtension);
  return path.size() > kMaxPathBytes ? std::string() : path;
}

/// Written item by item: all of them as JSON values would take many times the text's size.
std::string list_of(const TargetTable& target, Rank rank) {
  std::string list = "[";
  for (const TargetParameter& parameter : target.parameters()) {
    if (!target.has(parameter, rank)) continue;
    list += list.size() == 1 ? "\n" : ",\n";
    list += describe(target, rank, parameter, path_of(parameter))
                .dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return list + "\n]\n";
}

void warn_of_long_names(const std::vector<std::string>& names, std::vector<std::string>& warnings) {
  if (names.empty()) return;
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + shortened(printable(name), kShownColumns);
  }
  warnings.push_back("no NumPy file for " + list +
                     ": a path with that name would be too long to be opened; the other files "
                     "have " +
                     (names.size() == 1 ? "it" : "them"));
}

}  // namespace

void add_params(const std::shared_ptr<const TargetTable>& target, Rank rank,
                const std::string& directory, std::vector<OutputFile>& files,
                std::vector<std::string>& warnings) {
  // All in one place: of a hundred thousand files each would leave a gap behind its path's text.
  const auto arrays = std::make_shared<std::deque<NpyFile>>();
  std::vector<std::string> too_long;
  for (const TargetParameter& parameter : target->parameters()) {
    if (!is_array(parameter.dtype) || !target->has(parameter, rank)) continue;
    const std::string path = path_of(parameter);
    if (path.empty()) {
      too_long.push_back(parameter.name);
      continue;
    }
    const NpyFile& array = arrays->emplace_back(target, rank, parameter);
    files.push_back({directory + path, {arrays, &array}});
  }
  warn_of_long_names(too_long, warnings);
  files.push_back({directory + "params.json",
                   std::make_shared<MadeFile>([target, rank] { return list_of(*target, rank); })});
}

}  // namespace reshardfs
