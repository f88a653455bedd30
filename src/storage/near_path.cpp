// SPDX-License-Identifier: Apache-2.0
#include "storage/near_path.h"

#include <exception>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "base/text/near_name.h"
#include "storage/local/directory.h"

namespace reshardfs {

std::string did_you_mean_path(const std::filesystem::path& path) noexcept {
  try {
    const std::filesystem::path plain = without_trailing_slash(path);
    const std::filesystem::path parent = plain.has_parent_path() ? plain.parent_path() : ".";
    std::vector<std::string> names;
    for (const DirectoryEntry& entry : list_directory(parent)) names.push_back(entry.name);
    const auto near = near_name(plain.filename().string(), names);
    if (!near) return "";
    return "did you mean '" +
           printable(plain.has_parent_path() ? (parent / *near).string() : *near) + "'?";
  } catch (const std::exception&) {
    return "";  // what is not there cannot be compared with what cannot be listed
  }
}

}  // namespace reshardfs
