// SPDX-License-Identifier: Apache-2.0
#include "conversion/stated_model/exported_part.h"

#include <algorithm>
#include <string>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "storage/local/directory.h"
#include "storage/location.h"
#include "strategy/files/strategy_file.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// So long is the first line of a manifest at most that is read.
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20U;

bool leaves_out(const JsonValue& conversion) {
  const auto list = [&](const char* key) {
    const auto globs = conversion.find(key);
    return globs && globs->size() > 0;
  };
  const auto partial = conversion.find("partial");
  return list("include") || list("exclude") || (partial && partial->boolean() == true);
}

bool states_part(const fs::path& manifest) {
  const std::string text = read_small_file(manifest, kMostBytes);
  const auto header = JsonDocument::parse(text.substr(0, text.find('\n')));
  if (!header) return false;
  const auto conversion = header->value().find("conversion");
  return conversion && leaves_out(*conversion);
}

bool has_such_manifest(const fs::path& directory) {
  for (const DirectoryEntry& entry : list_directory(directory)) {
    if (entry.is_regular && is_manifest_name(entry.name))
      return states_part(directory / entry.name);
  }
  return false;
}

}  // namespace

bool is_exported_part(const fs::path& source) {
  // dcp/iter_0000001/, merged/FILE and others lie so deep below the directory of an export.
  constexpr int kDepth = 3;
  if (is_url(source)) return false;
  fs::path place = source.lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  for (int i = 0; i < kDepth && !place.empty(); ++i, place = place.parent_path()) {
    try {
      if (path_kind(place) == PathKind::kDirectory && has_such_manifest(place)) return true;
    } catch (const Error&) {
      // What cannot be read says nothing.
    }
    if (place == place.parent_path()) break;
  }
  return false;
}

}  // namespace reshardfs
