// SPDX-License-Identifier: Apache-2.0
#include "storage/near_path.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "base/text/near_name.h"
#include "base/text/url_path.h"
#include "storage/backend.h"
#include "storage/local/directory.h"
#include "storage/local/unmounted_place.h"

namespace reshardfs {

namespace {

/// "s3://bucket" if the path ends with "s3:/bucket"; else empty.
std::string url_at_end(const std::filesystem::path& path) {
  const std::vector<std::string_view> schemes = url_schemes();
  for (auto part = path.begin(); part != path.end(); ++part) {
    const std::string scheme = part->string();
    const auto is_it = [&scheme](std::string_view known) {
      return scheme == std::string(known) + ":";
    };
    if (std::none_of(schemes.begin(), schemes.end(), is_it)) continue;
    std::filesystem::path tail;
    for (auto more = part; more != path.end(); ++more) tail /= *more;
    const bool names_something = tail.native().size() > scheme.size() + 1;
    return names_something ? meant_url(tail.native()).value_or("") : "";
  }
  return "";
}

/// The path with the first name that does not exist replaced by a near one; empty if there is none,
/// or it does not lead to the rest.
std::filesystem::path near_path(std::filesystem::path wrong) {
  std::filesystem::path rest;
  const auto parent_of = [](const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  };
  while (!is_url(wrong) && path_kind(parent_of(wrong)) == PathKind::kMissing) {
    rest = rest.empty() ? wrong.filename() : wrong.filename() / rest;
    wrong = wrong.parent_path();
  }
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : list_directory(parent_of(wrong))) names.push_back(entry.name);
  const auto near = near_name(wrong.filename().string(), names);
  if (!near) return {};
  const std::filesystem::path found = wrong.replace_filename(*near);
  if (rest.empty()) return found;
  return path_kind(found / rest) == PathKind::kMissing ? std::filesystem::path() : found / rest;
}

}  // namespace

std::string did_you_mean_path(const std::filesystem::path& path) noexcept {
  try {
    const std::string url = is_url(path) ? std::string() : url_at_end(path);
    if (!url.empty()) return "did you mean '" + printable(url) + "'?";
    std::string first = is_url(path) ? std::string() : mount_it_first(path);
    if (!first.empty()) return first;
    const std::filesystem::path near = near_path(without_trailing_slash(path));
    return near.empty() ? "" : "did you mean '" + printable(near.string()) + "'?";
  } catch (const std::exception&) {
    return "";  // what is not there cannot be compared with what cannot be listed
  }
}

}  // namespace reshardfs
