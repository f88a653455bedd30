// SPDX-License-Identifier: Apache-2.0
#include "view/installed_maps.h"

#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reshardfs/error.h"

#include "base/data_directory.h"
#include "storage/directory.h"

namespace reshardfs {
namespace {

constexpr const char* kSuffix = ".toml";

}  // namespace

std::filesystem::path installed_maps_directory() {
  // Beside the program first: a tree may be installed anywhere, and be moved.
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    const std::filesystem::path beside =
        program.parent_path().parent_path() / "share" / "reshardfs" / "maps";
    if (std::filesystem::is_directory(beside, failed)) return beside;
  }
  return std::filesystem::path(kDataDirectory) / "maps";
}

std::vector<std::string> installed_maps() {
  const std::filesystem::path directory = installed_maps_directory();
  std::error_code failed;
  if (!std::filesystem::is_directory(directory, failed)) return {};
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : list_directory(directory)) {
    const std::filesystem::path file = entry.name;
    if (file.extension() == kSuffix) names.push_back(file.stem().string());
  }
  return names;
}

bool is_map_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(kSuffix);
}

std::filesystem::path find_map(const std::string& name) {
  if (is_map_path(name)) return std::filesystem::absolute(name);
  const std::filesystem::path file = installed_maps_directory() / (name + kSuffix);
  std::error_code failed;
  if (!name.empty() && std::filesystem::exists(file, failed)) return file;
  const std::vector<std::string> known = installed_maps();
  throw Error(ErrorKind::kMissing,
              "no model map of the name '" + printable(name) + "' is installed")
      .hint(known.empty() ? "give the path of a file of rules"
                          : fmt::format("installed are {}; a file needs a path with '/' or .toml",
                                        fmt::join(known, ", ")));
}

}  // namespace reshardfs
