// SPDX-License-Identifier: Apache-2.0
#include "conversion/identity.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/blocks.h"
#include "base/json/json_writer.h"
#include "base/process/parallel.h"
#include "base/sha256.h"
#include "base/version.h"
#include "conversion/model_maps.h"
#include "conversion/option_words.h"
#include "conversion/source_file.h"
#include "storage/byte_source.h"
#include "storage/local/directory.h"
#include "strategy/derive/layer_stages.h"

namespace reshardfs {
namespace {

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

/// A sum of a file, or of all files of a directory with their names.
std::string content_of(const fs::path& path) {
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

void write_content(JsonWriter& json, const char* key, const std::optional<fs::path>& path) {
  json.member_or_null(key, path ? std::optional(content_of(*path)) : std::nullopt);
}

enum class Samples : std::uint8_t { kTaken, kNone };

void write_sources(JsonWriter& json, const ConversionOptions& options,
                   const std::vector<ConversionSource>& sources, Samples samples) {
  std::vector<std::string> files(sources.size());
  parallel_for(sources.size(), [&](std::size_t i) {
    const std::string path = sources[i].path.lexically_relative(options.source.path).string();
    files[i] = samples == Samples::kTaken ? source_file_identity(sources[i], path)
                                          : source_file_facts(sources[i], path);
  });
  json.open_list(kSourceFiles);
  for (const std::string& file : files) json.written(file);
  json.close_list();
}

/// The files that maps are made of, and how these are used.
void write_maps(JsonWriter& json, const ConversionOptions& options) {
  json.open_object("map");
  json.texts("files", ModelMaps(options.source.maps, options.source.path,
                                options.source.no_symlinks ? options.source.path : "")
                          .digests());
  json.open_list("directions");
  for (const MapDirection direction : options.source.maps.directions) {
    json.number(static_cast<int>(direction));
  }
  json.close_list();
  json.texts("variables", options.source.maps.variables);
  json.close_object();
}

void write_formats(JsonWriter& json, const ConversionOptions& options) {
  json.open_list("format");
  for (const OutputFormat format : options.formats) {
    json.text(word_of(kFormatWords, format));
  }
  json.close_list();
}

void write_strategy(JsonWriter& json, const char* key, const std::optional<fs::path>& path,
                    const DerivedSizes& sizes) {
  sizes.empty() ? write_content(json, key, path) : json.member(key, sizes.text);
}

/// What lays the parameters out, and names them.
void write_strategies(JsonWriter& json, const ConversionOptions& options) {
  write_strategy(json, "src-strategy", options.source.strategy, options.source.sizes);
  write_strategy(json, "dst-strategy", options.dst_strategy, options.dst_sizes);
  // What was exported before there was the option goes on without it.
  if (!options.stage_layers.empty()) json.member("stage-layers", to_text(options.stage_layers));
  json.texts("src-join", options.source.join);
  if (!options.source.renames.empty()) json.texts("rename", options.source.renames);
  if (!options.source.drops.empty()) json.texts("drop", options.source.drops);
  write_content(json, "name-map",
                options.name_map.empty() ? std::nullopt : std::optional(options.name_map));
  options.source.maps.maps.empty() ? json.null_member("map") : write_maps(json, options);
}

/// All but the version and the source files.
void write_options(JsonWriter& json, const ConversionOptions& options) {
  write_strategies(json, options);
  json.texts("state-prefix", options.source.state_prefixes);
  json.member("prefix", options.prefix);
  json.member("unmatched", static_cast<int>(options.unmatched));
  json.member("replicas", static_cast<int>(options.source.replicas));
  json.texts("include", options.include);
  json.texts("exclude", options.exclude);
  write_formats(json, options);
  json.member("metadata", options.safetensors_metadata);
  options.align ? json.member("align", *options.align) : json.null_member("align");
  json.member("shard-size", options.shard_bytes);
  json.member("dcp-shards", options.dcp_shards);
  json.member("dcp-release", static_cast<int>(options.dcp_release));
  json.texts("cast", options.casts);
  json.member("crc", options.append_crc);
  // What was exported before there was the option goes on without it.
  if (options.weights_only) json.member("weights-only", true);
  if (!options.source.state_key.empty()) json.member("state-key", options.source.state_key);
  if (options.source.dequantize) json.member("dequantize", true);
  if (options.as_in_source) json.member("as-in-source", true);
}

/// The file of a list that has the path; nothing if there is none.
std::optional<JsonValue> with_path(const std::optional<JsonValue>& files, const JsonValue& path) {
  if (!files) return std::nullopt;
  for (const JsonValue file : *files) {
    if (file.is_object() && is_same_json(file.find("path"), path)) return file;
  }
  return std::nullopt;
}

IdentityDifference difference_of_sources(const std::optional<JsonValue>& old,
                                         const JsonValue& now) {
  for (const JsonValue file : now) {
    const JsonValue path = file.find("path").value();
    std::string name = "source file '" + printable(std::string(path.text().value_or(""))) + "'";
    const auto before = with_path(old, path);
    if (!before) return {"it knows no " + name, kOtherHint};
    const std::string difference = source_file_difference(*before, file);
    if (difference.empty()) continue;
    name.append(" ").append(difference);
    return {std::move(name), may_be_a_copy(*before, file) ? kCopyHint : kOtherHint};
  }
  return {"it has more source files", kOtherHint};
}

}  // namespace

std::string conversion_identity(const ConversionOptions& options,
                                const std::vector<ConversionSource>& sources) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("version", kVersion);
  write_sources(json, options, sources, Samples::kTaken);
  write_options(json, options);
  json.close_object();
  return json.take();
}

std::string mount_identity(const ConversionOptions& options,
                           const std::vector<ConversionSource>& sources) {
  JsonWriter json(kCompactJson);
  json.open_object();
  write_sources(json, options, sources, Samples::kNone);
  write_options(json, options);
  json.close_object();
  return json.take();
}

std::string steps_identity(const ConversionOptions& options) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("steps", "all");
  json.member("source", options.source.path.string());
  write_options(json, options);
  json.close_object();
  return json.take();
}

IdentityDifference identity_difference(const std::optional<JsonValue>& old, const JsonValue& now) {
  for (const JsonValue value : now) {
    const auto before = old && old->is_object() ? old->find(value.key()) : std::nullopt;
    if (is_same_json(before, value)) continue;
    if (value.key() == kSourceFiles) return difference_of_sources(before, value);
    return {"different: " + printable(std::string(value.key())), kOtherHint};
  }
  return {"different: more than is known", kOtherHint};
}

}  // namespace reshardfs
