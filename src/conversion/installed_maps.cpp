// SPDX-License-Identifier: Apache-2.0
#include "conversion/installed_maps.h"

#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reshardfs/error.h"

#include "base/data_directory.h"
#include "base/text/near_name.h"
#include "base/text/url_path.h"
#include "modelmap/map_loader.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

constexpr const char* kSuffix = ".toml";

std::filesystem::path& other_program() {
  static std::filesystem::path path;
  return path;
}

/// The first paragraph of the comment at the beginning, without the licence.
std::string comment_of(const std::string& text) {
  std::istringstream lines(text);
  std::string comment;
  for (std::string line; std::getline(lines, line) && line.starts_with("#");) {
    if (line.find("SPDX-") != std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of("# ");
    if (begin == std::string::npos) break;
    comment += (comment.empty() ? "" : " ") + line.substr(begin);
  }
  return comment;
}

std::string read_map_file(const std::filesystem::path& file) {
  return read_small_file(file, modelmap::kMaxMapBytes);
}

}  // namespace

void set_program(const std::filesystem::path& path) {
  other_program() = path;
}

std::filesystem::path installed_maps_directory() {
  // Beside the program first: a tree may be installed anywhere, and be moved.
  std::error_code failed;
  const std::filesystem::path program =
      other_program().empty() ? std::filesystem::read_symlink("/proc/self/exe", failed)
                              : other_program();
  if (!failed) {
    std::filesystem::path beside =
        program.parent_path().parent_path() / "share" / "reshardfs" / "maps";
    if (std::filesystem::is_directory(beside, failed)) return beside;
  }
  return std::filesystem::path(kDataDirectory) / "maps";
}

std::vector<modelmap::ModelMap> installed_maps() {
  const std::filesystem::path directory = installed_maps_directory();
  std::error_code failed;
  if (!std::filesystem::is_directory(directory, failed)) return {};
  std::map<std::filesystem::path, std::string> texts;
  modelmap::MapLoader loader([&](const std::filesystem::path& file) {
    const auto known = texts.find(file);
    return known == texts.end() ? read_map_file(file) : known->second;
  });
  for (const DirectoryEntry& entry : list_directory(directory)) {
    const std::filesystem::path file = normal_location(directory / entry.name);
    if (file.extension() == kSuffix) texts.emplace(file, read_map_file(file));
  }
  std::vector<modelmap::ModelMap> maps;
  for (const auto& [file, text] : texts) {
    std::string about = comment_of(text);
    if (about.find("Not for use alone") != std::string::npos) continue;
    maps.push_back(loader.load(file));
    maps.back().about = std::move(about);
  }
  return maps;
}

std::optional<TensorPlan> read_installed_plan(const std::vector<std::string>& types) {
  const std::filesystem::path file = installed_maps_directory() / "parts" / "transformers-tp.toml";
  std::error_code failed;
  if (types.empty() || !std::filesystem::exists(file, failed)) return std::nullopt;
  return read_tensor_plan(file.string(), read_map_file(file), types);
}

bool is_map_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(kSuffix);
}

NamedMap find_map(const std::string& name) {
  if (is_map_path(name)) return {absolute_location(name), {}};
  const std::filesystem::path file = installed_maps_directory() / (name + kSuffix);
  std::error_code failed;
  if (!name.empty() && std::filesystem::exists(file, failed)) return {file, {}};
  std::vector<std::string> known;
  for (const modelmap::ModelMap& map : installed_maps()) {
    const auto found = map.other_names.find(name);
    if (found != map.other_names.end()) return {map.file, found->second};
    known.push_back(map.name());
  }
  throw Error(ErrorKind::kMissing,
              "no model map of the name '" + printable(name) + "' is installed")
      .hint(did_you_mean(name, known))
      .hint(known.empty() ? "give the path of a file of rules"
                          : fmt::format("installed are {}; a file needs a path with '/' or .toml",
                                        fmt::join(known, ", ")));
}

}  // namespace reshardfs
