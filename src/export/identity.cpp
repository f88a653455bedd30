// SPDX-License-Identifier: Apache-2.0
#include "export/identity.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "base/blocks.h"
#include "base/sha256.h"
#include "base/version.h"
#include "storage/byte_source.h"
#include "storage/directory.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

void add_file(const fs::path& path, Sha256& hash) {
  const ByteSourcePtr source = open_local_file(path);
  for_each_block(*source, 0, source->size(),
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

Json formats_of(const ConversionOptions& options) {
  Json formats = Json::array();
  for (const OutputFormat format : options.formats) {
    formats.push_back(format == OutputFormat::kCkpt ? "ckpt" : "safetensors");
  }
  return formats;
}

}  // namespace

Json conversion_identity(const ConversionOptions& options, const Conversion& conversion) {
  Json files = Json::array();
  for (const ConversionSource& file : conversion.source_files()) {
    files.push_back(
        {file.path.lexically_relative(options.source).string(), file.bytes, file.mtime_ns});
  }
  return {{"version", kVersion},
          {"source files", std::move(files)},
          {"src-strategy", content_of(options.src_strategy)},
          {"dst-strategy",
           options.dst_sizes.empty() ? content_of(options.dst_strategy) : Json(options.dst_sizes)},
          {"src-join", options.src_join},
          {"name-map", options.name_map.empty() ? Json() : content_of(options.name_map)},
          {"state-prefix", options.state_prefixes},
          {"prefix", options.prefix},
          {"unmatched", static_cast<int>(options.unmatched)},
          {"include", options.include},
          {"exclude", options.exclude},
          {"format", formats_of(options)},
          {"metadata", options.safetensors_metadata},
          {"align", options.align},
          {"shard-size", options.shard_bytes},
          {"cast", options.casts},
          {"crc", options.append_crc}};
}

}  // namespace reshardfs
