// SPDX-License-Identifier: Apache-2.0
#include "view/params_directory.h"

#include <deque>
#include <set>

#include <nlohmann/json.hpp>

#include "base/file_name.h"
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
    stages.insert((holder.file->rank - source.base_rank()) / source.stage_devices());
  }
  return stages;
}

std::set<std::int64_t> source_ranks(const TensorView& view) {
  std::set<std::int64_t> ranks;
  view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
    if (holding && bytes > 0) ranks.insert(holding.file->rank);
  });
  return ranks;
}

Json describe(const TargetTable& target, std::int64_t rank, const TargetParameter& parameter,
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

/// Relative to the list; empty for what is no array.
std::string path_of(const TargetParameter& parameter) {
  if (!is_array(parameter.dtype)) return {};
  return "params/" + to_file_path(parameter.name) + std::string(kParameterFileExtension);
}

/// Written item by item: all of them as JSON values would take many times the text's size.
std::string list_of(const TargetTable& target, std::int64_t rank) {
  std::string list = "[";
  for (const TargetParameter& parameter : target.parameters()) {
    if (!target.has(parameter, rank)) continue;
    list += list.size() == 1 ? "\n" : ",\n";
    list += describe(target, rank, parameter, path_of(parameter))
                .dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return list + "\n]\n";
}

}  // namespace

void add_params(const std::shared_ptr<const TargetTable>& target, std::int64_t rank,
                const std::string& directory, std::vector<OutputFile>& files) {
  // All in one place: of a hundred thousand files each would leave a gap behind its path's text.
  const auto arrays = std::make_shared<std::deque<NpyFile>>();
  for (const TargetParameter& parameter : target->parameters()) {
    if (!is_array(parameter.dtype) || !target->has(parameter, rank)) continue;
    const NpyFile& array = arrays->emplace_back(target, rank, parameter);
    files.push_back({directory + path_of(parameter), {arrays, &array}});
  }
  files.push_back({directory + "params.json",
                   std::make_shared<MadeFile>([target, rank] { return list_of(*target, rank); })});
}

}  // namespace reshardfs
