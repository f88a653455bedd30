// SPDX-License-Identifier: Apache-2.0
#include "conversion/identity.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "reshardfs/conversion_options.h"
#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/json/json_writer.h"
#include "base/process/parallel.h"
#include "base/version.h"
#include "conversion/named_inputs.h"
#include "conversion/option_words.h"
#include "storage/byte_source.h"
#include "strategy/derive/layer_stages.h"

namespace reshardfs {
namespace {

// Together as much as one request of a mount reads.
constexpr std::uint64_t kSamples = 64;
constexpr std::uint64_t kSampleBytes = 4096;

struct Field {
  const char* key;
  const char* words;
  bool tells_contents;
};
constexpr std::array kFields{
    Field{"bytes", "has a different size", true},
    Field{"index", "has different parameters", true},
    Field{"samples", "has different contents", true},
    Field{"mtime_ns", "has a different modification time", false},
    Field{"inode", "is a different file (by inode number)", false},
    Field{"ctime_ns", "has a different change time", false},
};

void require_opened(const ByteSource& source, const ConversionSource& file) {
  const FileStamp found = source.stamp();
  if (found.device == file.device && found.inode == file.inode &&
      source.mtime_ns() == file.mtime_ns && found.ctime_ns == file.ctime_ns) {
    return;
  }
  throw Error(ErrorKind::kChanged, "has been changed or replaced since the export began")
      .in_file(file.path)
      .hint("run the same command again when it is complete");
}

/// Of pages that lie evenly in the file, its first and its last among them: the bytes as they are
/// stored, which is not as they are read if they are encrypted.
std::uint64_t sum_of_samples(const ByteSource& source) {
  const std::uint64_t size = source.size();
  const std::uint64_t sample = std::min(size, kSampleBytes);
  const std::uint64_t last = size - sample;
  // All of a small file.
  const std::uint64_t steps = std::min(size / kSampleBytes, kSamples - 1);
  std::vector<std::byte> bytes(static_cast<std::size_t>((steps + 1) * kSampleBytes));
  std::vector<ReadRequest> parts{{0, std::span(bytes).first(sample)}};
  for (std::uint64_t i = 1; i <= steps; ++i) {
    const std::uint64_t offset = last / steps * i + last % steps * i / steps;
    parts.push_back({offset, std::span(bytes).subspan(i * kSampleBytes, sample)});
  }
  source.read_many(parts);
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// @param samples of its bytes: the sum.
std::string object_of(const ConversionSource& file, const std::string& shown_path,
                      std::optional<std::uint64_t> samples) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("path", shown_path);
  json.member("bytes", file.bytes);
  json.member("mtime_ns", file.mtime_ns);
  json.member("ctime_ns", file.ctime_ns);
  json.member("inode", file.inode);
  json.member("index", fmt::format("{:016x}", file.index_sum));
  if (samples) json.member("samples", fmt::format("{:016x}", *samples));
  json.close_object();
  return json.take();
}

bool differ(const JsonValue& old, const JsonValue& now, const Field& field) {
  return !is_same_json(old.find(field.key), now.find(field.key));
}

/// A JSON object that identifies a source file and its contents: see conversion_identity().
/// @param shown_path the path to state in the object.
/// @throws Error kChanged if the path no longer leads to the file that the conversion opened, or
///         the file has changed; kMissing or kIo.
std::string source_file_identity(const ConversionSource& file, const std::string& shown_path) {
  const ByteSourcePtr source = open_file(file.path);
  require_opened(*source, file);
  // A server tells versions apart itself: its stamp is made of that.
  const std::uint64_t samples = source->is_remote() ? file.inode : sum_of_samples(*source);
  source->check_unchanged();
  return object_of(file, shown_path, samples);
}

/// The same without examining the file, and without samples of its bytes.
std::string source_file_facts(const ConversionSource& file, const std::string& shown_path) {
  return object_of(file, shown_path, std::nullopt);
}

/// The difference between two of these objects in words ("has another size"); empty if there is
/// none.
std::string source_file_difference(const JsonValue& old, const JsonValue& now) {
  for (const Field& field : kFields) {
    if (differ(old, now, field)) return field.words;
  }
  return {};
}

/// Whether no difference shows that the contents differ, so that one file may be a copy of the
/// other.
bool may_be_a_copy(const JsonValue& old, const JsonValue& now) {
  return std::none_of(kFields.begin(), kFields.end(), [&](const Field& field) {
    return field.tells_contents && differ(old, now, field);
  });
}

constexpr const char* kSourceFiles = "source files";
/// Another number for each way in which dcp/, dcp-hf/ and megatron/ cut tensors, order them and
/// write archives by the same options: parts of files that were made in two ways do not fit each
/// other.
constexpr int kBoxesOfDcp = 2;
constexpr const char* kVersionKey = "version";
constexpr const char* kInputs = "inputs";
constexpr const char* kCompanions = "companions";
constexpr const char* kOtherHint = "choose another directory, or use --force";
constexpr const char* kForceHint =
    "use --force, which compares existing files with the source, or choose another directory";
constexpr const char* kCopyHint =
    "if it has the same bytes (a copy, a restored backup), use --force: it compares existing files "
    "with the source and rewrites only those that differ";

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

/// How maps are used.
void write_maps(JsonWriter& json, const ConversionOptions& options) {
  json.open_object("map");
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

/// What lays the parameters out, and names them, beside files.
void write_layout(JsonWriter& json, const ConversionOptions& options) {
  const SourceRequest& source = options.source;
  json.member("src-strategy", source.sizes.text);
  json.member("dst-strategy", options.dst_sizes.text);
  json.member("stage-layers", to_text(options.stage_layers));
  json.texts("src-join", source.join);
  json.texts("rename", source.renames);
  json.texts("drop", source.drops);
  json.member("src-pattern", source.pattern);
  source.maps.maps.empty() ? json.null_member("map") : write_maps(json, options);
}

/// All but the version and the files.
void write_options(JsonWriter& json, const ConversionOptions& options) {
  write_layout(json, options);
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
  json.member("boxes of dcp", kBoxesOfDcp);
  json.member("dcp-release", static_cast<int>(options.dcp_release));
  json.member("iteration-release", static_cast<int>(options.iteration_release));
  for (const auto& [name, member] : kTrainerWords) {
    const auto& value = options.trainer.*member;
    value ? json.member(name, *value) : json.null_member(name);
  }
  json.texts("cast", options.casts);
  json.member("crc", options.append_crc);
  json.member("weights-only", options.weights_only);
  json.member("partial", options.partial);
  json.member("state-key", options.source.state_key);
  json.member("dequantize", options.source.dequantize);
  // Identities without it were written before there was such an option.
  if (!options.source.quantize.empty()) json.member("quantize", options.source.quantize);
  json.member("as-in-source", options.as_in_source);
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
    if (!before) return {"it has no " + name, kOtherHint};
    const std::string difference = source_file_difference(*before, file);
    if (difference.empty()) continue;
    name.append(" ").append(difference);
    return {std::move(name), may_be_a_copy(*before, file) ? kCopyHint : kOtherHint};
  }
  return {"it has more source files", kOtherHint};
}

}  // namespace

std::string conversion_identity(const ConversionOptions& options,
                                const std::vector<ConversionSource>& sources,
                                const std::vector<Input>& inputs) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member(kVersionKey, kVersion);
  write_sources(json, options, sources, Samples::kTaken);
  write_inputs(json, kInputs, options, inputs);
  write_options(json, options);
  json.close_object();
  return json.take();
}

std::string mount_identity(const ConversionOptions& options,
                           const std::vector<ConversionSource>& sources,
                           const std::vector<Input>& inputs, const std::vector<Input>& companions) {
  JsonWriter json(kCompactJson);
  json.open_object();
  write_sources(json, options, sources, Samples::kNone);
  write_inputs(json, kInputs, options, inputs);
  write_options(json, options);
  write_inputs(json, kCompanions, options, companions);
  json.close_object();
  return json.take();
}

std::string steps_identity(const ConversionOptions& options, const std::vector<Input>& inputs) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("steps", "all");
  json.member("source", options.source.path.string());
  write_inputs(json, kInputs, options, inputs);
  write_options(json, options);
  json.close_object();
  return json.take();
}

bool differ_in_companions_alone(const JsonValue& old, const JsonValue& now) {
  if (!old.is_object() || old.size() != now.size() || old.is_same(now)) return false;
  for (const JsonValue value : now) {
    if (value.key() != kCompanions && !is_same_json(old.find(value.key()), value)) return false;
  }
  return true;
}

IdentityDifference identity_difference(const std::optional<JsonValue>& old, const JsonValue& now) {
  for (const JsonValue value : now) {
    const auto before = old && old->is_object() ? old->find(value.key()) : std::nullopt;
    if (is_same_json(before, value)) continue;
    if (value.key() == kSourceFiles) return difference_of_sources(before, value);
    if (value.key() == kVersionKey)
      return {"another version of reshardfs has written it", kForceHint};
    const bool are_files = value.key() == kInputs || value.key() == kCompanions;
    if (are_files && before) return {difference_of_inputs(*before, value), kOtherHint};
    return {"different: " + printable(std::string(value.key())), kOtherHint};
  }
  return {"it differs in an unknown way", kOtherHint};
}

}  // namespace reshardfs
