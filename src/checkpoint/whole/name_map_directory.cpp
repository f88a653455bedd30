// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/name_map_directory.h"

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "base/text/text.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/whole/index_statement.h"
#include "format/json/json_members.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

/// Files that name the file of each parameter; the first one that is there decides.
constexpr std::string_view kMindSporeMap = "param_name_map.json";
constexpr std::array<std::string_view, 3> kUsualNames{kMindSporeMap, "model.safetensors.index.json",
                                                      "pytorch_model.bin.index.json"};
constexpr std::string_view kHyperParameters = "hyper_param.safetensors";
// As safetensors headers: 100 bytes for each of a million parameters.
constexpr std::uint64_t kMaxNameMapBytes = 100'000'000;

constexpr const char* kExpected =
    R"(expected {"weight_map": {"parameter": "file.safetensors", ...}})";

Error bad_map(const std::filesystem::path& path, const std::string& what) {
  return Error(ErrorKind::kBadInput, what).in_file(path.string()).hint(kExpected);
}

void require_plain_name(const std::filesystem::path& map, const std::string& name) {
  if (is_plain_file_name(name)) return;
  throw bad_map(map, "names the file '" + printable(name) + "', which is not in its directory");
}

/// Parameter name and file. Old versions of MindSpore write them without a "weight_map" around it.
/// @param text of the file at `path`
JsonTexts read_map(const std::filesystem::path& path, std::string text) {
  try {
    return read_json_texts(std::move(text), "weight_map", "metadata");
  } catch (Error& error) {
    error.in_file(path.string());
    if (error.kind() == ErrorKind::kBadInput && error.parameter().empty()) error.hint(kExpected);
    throw;
  }
}

/// Of the files that an index of this name lists.
std::string_view extension_of_files(std::string_view index) {
  return index.find(".bin.index") == std::string_view::npos ? ".safetensors" : ".bin";
}

/// The files that other indexes name are no part of this one's model.
std::set<std::string> files_of_others(const std::filesystem::path& directory,
                                      const std::vector<std::string>& indexes,
                                      const SourceTreePtr& tree) {
  std::set<std::string> names;
  for (const std::string& index : indexes) {
    try {
      const std::filesystem::path path = directory / index;
      const JsonTexts map =
          read_map(path, read_small_file(path, kMaxNameMapBytes, unrecorded(tree)));
      for (const auto& [name, file] : map.members) names.emplace(file);
    } catch (const Error&) {
      // Its files are then called files that no index names.
    }
  }
  return names;
}

Error missing_file(const std::filesystem::path& index, const std::string& name) {
  return Error(ErrorKind::kMissing, "names the file '" + printable(name) + "', which is missing")
      .in_file(index.string());
}

}  // namespace

void require_files(const NameMapDirectory& map) {
  if (map.is_stale) throw missing_file(map.map_file, map.files.front().filename().string());
}

NameMapDirectory read_name_map(const std::filesystem::path& index, const SourceTreePtr& tree) {
  const std::filesystem::path directory = index.parent_path();
  const std::string index_name = index.filename().string();
  NameMapDirectory out;
  out.map_file = index;
  JsonTexts map = read_map(index, read_small_file(index, kMaxNameMapBytes, tree));
  out.is_hub_index = index_name != kMindSporeMap;
  out.metadata = std::move(map.beside);
  if (out.is_hub_index) out.total_bytes = read_total_size(out.metadata);
  std::map<std::string, std::size_t, std::less<>> numbers;
  std::optional<std::string_view> before;  // mostly the same file
  for (const auto& [parameter, file] : map.members) {
    if (file == before) continue;
    before = file;
    require_plain_name(index, std::string(file));
    numbers.emplace(file, 0);
  }
  if (numbers.empty()) throw bad_map(index, "names no parameter");
  const bool has_hyper = path_kind(directory / kHyperParameters, tree) != PathKind::kMissing;
  if (has_hyper) numbers.emplace(kHyperParameters, 0);

  std::vector<std::string> missing;
  for (auto& [name, number] : numbers) {
    number = out.files.size();
    out.files.push_back(directory / name);
    if (path_kind(out.files.back(), tree) == PathKind::kMissing) missing.push_back(name);
  }
  out.is_stale = missing.size() == numbers.size();
  if (!missing.empty() && !out.is_stale) throw missing_file(index, missing.front());
  const std::string_view extension = extension_of_files(index_name);
  const std::vector<DirectoryEntry> entries = list_directory(directory, tree);
  // All that must be there is named.
  unfinished_files(directory, entries, extension);
  for (const DirectoryEntry& entry : entries) {
    const bool other = entry.is_regular && entry.name != index_name && is_index_name(entry.name);
    if (other) out.other_indexes.push_back(entry.name);
  }
  const auto of_others = files_of_others(directory, out.other_indexes, tree);
  for (const DirectoryEntry& entry : entries) {
    const bool other = entry.is_regular && entry.name.ends_with(extension) &&
                       !numbers.contains(entry.name) && !of_others.contains(entry.name);
    if (other) out.beside.push_back(entry.name);
  }
  out.places.reserve(map.members.size());
  auto place = numbers.begin();
  for (const auto& [parameter, file] : map.members) {
    if (place->first != file) place = numbers.find(file);
    out.places.emplace_back(parameter, place->second);
  }
  map.members = {};
  out.names = std::make_shared<const JsonTexts>(std::move(map));
  return out;
}

std::optional<NameMapDirectory> find_name_map(const std::filesystem::path& directory,
                                              const SourceTreePtr& tree) {
  for (const std::string_view name : kUsualNames) {
    if (path_kind(directory / name, tree) != PathKind::kMissing) {
      return read_name_map(directory / name, tree);
    }
  }
  std::vector<std::string> indexes;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (entry.is_regular && is_index_name(entry.name)) indexes.push_back(entry.name);
  }
  if (indexes.empty()) return std::nullopt;
  if (indexes.size() == 1) return read_name_map(directory / indexes.front(), tree);
  throw Error(ErrorKind::kBadInput, "has " + std::to_string(indexes.size()) +
                                        " sets with an index: " + name_list(indexes))
      .in_file(directory.string())
      .hint("name the index of one of them as the source");
}

}  // namespace reshardfs
