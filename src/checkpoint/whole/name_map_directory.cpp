// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/name_map_directory.h"

#include <array>
#include <map>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/whole/index_statement.h"
#include "format/json/json_texts.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

constexpr std::string_view kHubIndex = "model.safetensors.index.json";
constexpr std::array<std::string_view, 2> kMapNames = {"param_name_map.json", kHubIndex};
constexpr std::string_view kModelExtension = ".safetensors";
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
std::vector<std::pair<std::string, std::string>> read_map(const std::filesystem::path& path,
                                                          const std::string& text) {
  try {
    return read_json_texts(text, "weight_map");
  } catch (Error& error) {
    error.in_file(path.string());
    if (error.kind() == ErrorKind::kBadInput && error.parameter().empty()) error.hint(kExpected);
    throw;
  }
}

}  // namespace

std::optional<NameMapDirectory> find_name_map(const std::filesystem::path& directory,
                                              const SourceTreePtr& tree) {
  NameMapDirectory out;
  for (const std::string_view name : kMapNames) {
    if (path_kind(directory / name, tree) == PathKind::kMissing) continue;
    out.map_file = directory / name;
    break;
  }
  if (out.map_file.empty()) return std::nullopt;

  const std::string text = read_small_file(out.map_file, kMaxNameMapBytes, tree);
  auto map = read_map(out.map_file, text);
  out.is_hub_index = out.map_file.filename() == kHubIndex;
  if (out.is_hub_index) out.total_bytes = read_total_size(text);
  std::map<std::string, std::size_t> numbers;
  for (const auto& [parameter, file] : map) {
    require_plain_name(out.map_file, file);
    numbers.emplace(file, 0);
  }
  if (numbers.empty()) throw bad_map(out.map_file, "names no parameter");
  const bool has_hyper = path_kind(directory / kHyperParameters, tree) != PathKind::kMissing;
  if (has_hyper) numbers.emplace(kHyperParameters, 0);

  for (auto& [name, number] : numbers) {
    number = out.files.size();
    out.files.push_back(directory / name);
    if (path_kind(out.files.back(), tree) == PathKind::kMissing) {
      throw Error(ErrorKind::kMissing, "names the file '" + printable(name) + "', which is missing")
          .in_file(out.map_file.string());
    }
  }
  const std::vector<DirectoryEntry> entries = list_directory(directory, tree);
  // All that must be there is named.
  unfinished_files(directory, entries, kModelExtension);
  for (const DirectoryEntry& entry : entries) {
    const bool other =
        entry.is_regular && entry.name.ends_with(kModelExtension) && !numbers.contains(entry.name);
    if (other) out.beside.push_back(entry.name);
  }
  for (auto& [parameter, file] : map) {
    out.places.emplace_back(std::move(parameter), numbers.at(file));
  }
  return out;
}

}  // namespace reshardfs
