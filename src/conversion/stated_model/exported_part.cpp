// SPDX-License-Identifier: Apache-2.0
#include "conversion/stated_model/exported_part.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/text.h"
#include "plan/source/renames.h"
#include "storage/local/directory.h"
#include "storage/location.h"
#include "strategy/files/strategy_file.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// So long is the first line of a manifest at most that is read.
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20U;

std::vector<std::string> texts_in(const JsonValue& conversion, const char* key) {
  std::vector<std::string> texts;
  const auto list = conversion.find(key);
  if (!list || !list->is_list()) return texts;
  for (const JsonValue text : *list) {
    if (text.text()) texts.emplace_back(*text.text());
  }
  return texts;
}

bool is_set(const JsonValue& conversion, const char* key) {
  const auto flag = conversion.find(key);
  return flag && flag->boolean() == true;
}

bool takes_name_map(const JsonValue& conversion) {
  const auto inputs = conversion.find("inputs");
  if (!inputs || !inputs->is_list()) return false;
  for (const JsonValue input : *inputs) {
    const auto name = input.is_object() ? input.find("name") : std::nullopt;
    if (name && name->text() && *name->text() == "--name-map") return true;
  }
  return false;
}

/// Whether the tensors of the export have other names than those that its options select.
bool names_anew(const JsonValue& conversion) {
  const auto map = conversion.find("map");
  return (map && map->is_object()) || !texts_in(conversion, "rename").empty() ||
         takes_name_map(conversion);
}

std::optional<ExportedPart> part_of(const JsonValue& conversion, const std::string& manifest) {
  const std::vector<std::string> drops = texts_in(conversion, "drop");
  NameFilter filter{texts_in(conversion, "include"), texts_in(conversion, "exclude"), false, {}};
  ExportedPart part;
  const auto add = [&part](const std::string& option) {
    part.words += (part.words.empty() ? "" : " ") + option;
  };
  for (const std::string& glob : filter.include) add("--include '" + printable(glob) + "'");
  for (const std::string& glob : filter.exclude) add("--exclude '" + printable(glob) + "'");
  for (const std::string& drop : drops) add("--drop '" + printable(drop) + "'");
  const bool is_partial = is_set(conversion, "partial");
  if (is_partial) add("--partial");
  if (part.words.empty()) return std::nullopt;
  part.words = "what " + part.words + " of its export has left out (" + manifest + ")";
  if (is_partial || names_anew(conversion)) return part;
  part.takes = [filter = std::move(filter), renames = Renames({}, drops)](const std::string& name) {
    return filter.takes(name) && !renames.drops(name);
  };
  return part;
}

std::optional<ExportedPart> part_in(const fs::path& directory) {
  for (const DirectoryEntry& entry : list_directory(directory)) {
    if (!entry.is_regular || !is_manifest_name(entry.name)) continue;
    const std::string text = read_small_file(directory / entry.name, kMostBytes);
    const auto header = JsonDocument::parse(text.substr(0, text.find('\n')));
    const auto conversion =
        header && header->value().is_object() ? header->value().find("conversion") : std::nullopt;
    if (!conversion || !conversion->is_object()) return std::nullopt;
    return part_of(*conversion, printable(entry.name));
  }
  return std::nullopt;
}

}  // namespace

std::optional<ExportedPart> exported_part(const fs::path& source) {
  // dcp/iter_0000001/, merged/FILE and others lie so deep below the directory of an export.
  constexpr int kDepth = 3;
  if (is_url(source)) return std::nullopt;
  fs::path place = source.lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  for (int i = 0; i < kDepth && !place.empty(); ++i, place = place.parent_path()) {
    try {
      if (path_kind(place) != PathKind::kDirectory) continue;
      if (auto part = part_in(place)) return part;
    } catch (const Error&) {
      // What cannot be read says nothing.
    }
    if (place == place.parent_path()) break;
  }
  return std::nullopt;
}

}  // namespace reshardfs
