// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/name_map_directory.h"

#include <array>
#include <map>
#include <string_view>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "storage/directory.h"

namespace reshardfs {
namespace {

constexpr std::array<std::string_view, 2> kMapNames = {"param_name_map.json",
                                                       "model.safetensors.index.json"};
constexpr std::string_view kHyperParameters = "hyper_param.safetensors";
// As safetensors headers: 100 bytes for each of a million parameters.
constexpr std::uint64_t kMaxMapBytes = 100'000'000;

Error bad_map(const std::filesystem::path& path, const std::string& what) {
  return Error(ErrorKind::kBadInput, what)
      .in_file(path.string())
      .hint(R"(expected {"weight_map": {"parameter": "file.safetensors", ...}})");
}

void require_plain_name(const std::filesystem::path& map, const std::string& name) {
  const bool plain = !name.empty() && name.find('/') == std::string::npos &&
                     name.find('\0') == std::string::npos && name != "." && name != "..";
  if (plain) return;
  throw bad_map(map, "names the file '" + printable(name) + "', which is not in its directory");
}

/// Old versions of MindSpore write the map itself, without a "weight_map" around it.
const nlohmann::json& weight_map(const std::filesystem::path& path, const nlohmann::json& json) {
  if (!json.is_object()) throw bad_map(path, "is no JSON object");
  const auto found = json.find("weight_map");
  if (found == json.end()) return json;
  if (!found->is_object()) throw bad_map(path, "its weight_map is no object");
  return *found;
}

}  // namespace

std::optional<NameMapDirectory> find_name_map(const std::filesystem::path& directory) {
  NameMapDirectory out;
  for (const std::string_view name : kMapNames) {
    if (path_kind(directory / name) == PathKind::kMissing) continue;
    out.map_file = directory / name;
    break;
  }
  if (out.map_file.empty()) return std::nullopt;

  const auto json =
      nlohmann::json::parse(read_small_file(out.map_file, kMaxMapBytes), nullptr, false);
  if (json.is_discarded()) throw bad_map(out.map_file, "cannot be parsed as JSON");
  std::map<std::string, std::size_t> numbers;
  const nlohmann::json& map = weight_map(out.map_file, json);
  for (const auto& [parameter, file] : map.items()) {
    if (!file.is_string()) {
      throw bad_map(out.map_file, "the value is no text").for_parameter(parameter);
    }
    require_plain_name(out.map_file, file.get_ref<const std::string&>());
    numbers.emplace(file.get_ref<const std::string&>(), 0);
  }
  if (numbers.empty()) throw bad_map(out.map_file, "names no parameter");
  const bool has_hyper = path_kind(directory / kHyperParameters) != PathKind::kMissing;
  if (has_hyper) numbers.emplace(kHyperParameters, 0);

  for (auto& [name, number] : numbers) {
    number = out.files.size();
    out.files.push_back(directory / name);
    if (path_kind(out.files.back()) == PathKind::kMissing) {
      throw Error(ErrorKind::kMissing, "names the file '" + printable(name) + "', which is missing")
          .in_file(out.map_file.string());
    }
  }
  for (const auto& [parameter, file] : map.items()) {
    out.places.emplace_back(parameter, numbers.at(file.get_ref<const std::string&>()));
  }
  return out;
}

}  // namespace reshardfs
