// SPDX-License-Identifier: Apache-2.0
#include "conversion/identity.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/blocks.h"
#include "base/process/parallel.h"
#include "base/sha256.h"
#include "base/version.h"
#include "conversion/model_maps.h"
#include "conversion/source_file.h"
#include "storage/byte_source.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kSourceFiles = "source files";
constexpr const char* kOtherHint = "choose another directory, or use --force";
constexpr const char* kCopyHint =
    "if it has the same bytes (a copy, a restored backup), use --force: it compares existing files "
    "with the source and rewrites only those that differ";

void add_file(const fs::path& path, Sha256& hash) {
  const ByteSourcePtr source = open_file(path);
  for_each_block(*source, ByteRange::whole(source->size()),
                 [&](std::span<const std::byte> bytes) { hash.update(bytes); });
}

/// Of a file, or of all files of a directory with their names.
Json content_of(const fs::path& path) {
  Sha256 hash;
  if (path_kind(path) != PathKind::kDirectory) {
    add_file(path, hash);
    return hash.finish();
  }
  for (const DirectoryEntry& entry : list_directory(path)) {
    if (!entry.is_regular) continue;
    hash.update(std::as_bytes(std::span(entry.name.c_str(), entry.name.size() + 1)));
    add_file(path / entry.name, hash);
  }
  return hash.finish();
}

Json content_of(const std::optional<fs::path>& path) {
  return path ? content_of(*path) : Json();
}

enum class Samples : std::uint8_t { kTaken, kNone };

Json source_files_of(const ConversionOptions& options, const std::vector<ConversionSource>& sources,
                     Samples samples) {
  std::vector<Json> files(sources.size());
  parallel_for(sources.size(), [&](std::size_t i) {
    const std::string path = sources[i].path.lexically_relative(options.source).string();
    files[i] = samples == Samples::kTaken ? source_file_identity(sources[i], path)
                                          : source_file_facts(sources[i], path);
  });
  return files;
}

/// The file of a list that has the path; null if there is none.
Json with_path(const Json& files, const Json& path) {
  const auto found = std::find_if(files.begin(), files.end(), [&](const Json& file) {
    return file.is_object() && file.value<Json>("path", Json()) == path;
  });
  return found == files.end() ? Json() : *found;
}

IdentityDifference difference_of_sources(const Json& old, const Json& now) {
  for (const Json& file : now) {
    const Json& path = file.at("path");
    std::string name = "source file '" + printable(path.get<std::string>()) + "'";
    const Json before = with_path(old, path);
    if (before.is_null()) return {"it knows no " + name, kOtherHint};
    const std::string difference = source_file_difference(before, file);
    if (difference.empty()) continue;
    name.append(" ").append(difference);
    return {std::move(name), may_be_a_copy(before, file) ? kCopyHint : kOtherHint};
  }
  return {"it has more source files", kOtherHint};
}

/// The files that maps are made of, and how these are used.
Json maps_of(const ConversionOptions& options) {
  Json directions = Json::array();
  for (const MapDirection direction : options.maps.directions) {
    directions.push_back(static_cast<int>(direction));
  }
  return {
      {"files", ModelMaps(options.maps, options.source, options.no_symlinks ? options.source : "")
                    .digests()},
      {"directions", std::move(directions)},
      {"variables", options.maps.variables}};
}

Json formats_of(const ConversionOptions& options) {
  Json formats = Json::array();
  for (const OutputFormat format : options.formats) {
    formats.push_back(format == OutputFormat::kCkpt ? "ckpt" : "safetensors");
  }
  return formats;
}

/// All but the version and the source files.
Json options_of(const ConversionOptions& options) {
  Json json{{"src-strategy", content_of(options.src_strategy)},
            {"dst-strategy", options.dst_sizes.empty() ? content_of(options.dst_strategy)
                                                       : Json(options.dst_sizes)},
            {"src-join", options.src_join},
            {"name-map", options.name_map.empty() ? Json() : content_of(options.name_map)},
            {"map", options.maps.maps.empty() ? Json() : maps_of(options)},
            {"state-prefix", options.state_prefixes},
            {"prefix", options.prefix},
            {"unmatched", static_cast<int>(options.unmatched)},
            {"replicas", static_cast<int>(options.replicas)},
            {"include", options.include},
            {"exclude", options.exclude},
            {"format", formats_of(options)},
            {"metadata", options.safetensors_metadata},
            {"align", options.align},
            {"shard-size", options.shard_bytes},
            {"dcp-shards", options.dcp_shards},
            {"dcp-release", static_cast<int>(options.dcp_release)},
            {"cast", options.casts},
            {"crc", options.append_crc}};
  // What was exported before there was the option goes on without it.
  if (options.weights_only) json["weights-only"] = true;
  return json;
}

/// As it is when it has been written and read: names need not be UTF-8.
Json as_read(const Json& json) {
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json identity_of(const ConversionOptions& options, const std::vector<ConversionSource>& sources,
                 Samples samples) {
  Json identity{{"version", kVersion}, {kSourceFiles, source_files_of(options, sources, samples)}};
  identity.update(options_of(options));
  return as_read(identity);
}

}  // namespace

Json conversion_identity(const ConversionOptions& options,
                         const std::vector<ConversionSource>& sources) {
  return identity_of(options, sources, Samples::kTaken);
}

Json mount_identity(const ConversionOptions& options,
                    const std::vector<ConversionSource>& sources) {
  Json identity = identity_of(options, sources, Samples::kNone);
  identity.erase("version");
  return identity;
}

Json steps_identity(const ConversionOptions& options) {
  Json identity{{"steps", "all"}, {"source", options.source.string()}};
  identity.update(options_of(options));
  return as_read(identity);
}

IdentityDifference identity_difference(const Json& old, const Json& now) {
  for (const auto& [key, value] : now.items()) {
    const Json before = old.is_object() ? old.value<Json>(key, Json()) : Json();
    if (before == value) continue;
    if (key == kSourceFiles) return difference_of_sources(before, value);
    return {"different: " + printable(key), kOtherHint};
  }
  return {"different: more than is known", kOtherHint};
}

}  // namespace reshardfs
