// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/set_kind.h"

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/file_name.h"
#include "base/text/text.h"
#include "checkpoint/completeness.h"
#include "checkpoint/quantized/block_scales.h"
#include "checkpoint/set_format.h"
#include "export/manifest.h"
#include "format/safetensors/safetensors.h"
#include "modelmap/variables.h"
#include "storage/local/directory.h"
#include "storage/location.h"
#include "storage/near_path.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> text_of(const JsonValue& object, std::string_view key) {
  const auto member = object.find(key);
  const auto text = member ? member->text() : std::nullopt;
  if (!text || text->empty()) return std::nullopt;
  return std::string(*text);
}

/// The JSON object in a local file; nothing if the file is remote or has something else.
std::optional<JsonDocument> read_json(const fs::path& path) {
  if (path.empty() || is_url(path)) return std::nullopt;
  try {
    if (path_kind(path) != PathKind::kOther) return std::nullopt;
    auto document = JsonDocument::parse(read_small_file(path, modelmap::kMaxConfigBytes));
    if (!document || !document->value().is_object()) return std::nullopt;
    return document;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Statement> by_metadata(const RankFile& file) {
  if (file.path.extension() != ".safetensors") return std::nullopt;
  try {
    const auto metadata = safetensors::read_metadata(*file.source);
    const auto format = metadata.find("format");
    if (format == metadata.end() || format->second.empty()) return std::nullopt;
    return Statement{"a writer of format \"" + format->second + "\"",
                     "metadata of " + file.path.filename().string()};
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Statement> by_config(const fs::path& config) {
  const auto document = read_json(config);
  if (!document) return std::nullopt;
  const auto version = text_of(document->value(), "transformers_version");
  if (!version) return std::nullopt;
  return Statement{"transformers " + *version, "config.json"};
}

/// The first line of the manifest says by which version.
std::optional<Statement> by_manifest(const fs::path& source) {
  if (is_url(source)) return std::nullopt;
  const fs::path path = source / Manifest::kName;
  try {
    if (path_kind(path) != PathKind::kOther) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
  return Statement{"reshardfs export", Manifest::kName};
}

/// As config.json states it, or else the file that modelopt writes beside it.
void read_quantization(const fs::path& config, const JsonValue& value, ModelFacts& out) {
  constexpr const char* kBeside = "hf_quant_config.json";
  out.quantization = quantization_methods(value);
  out.quantization_by = "config.json";
  if (!out.quantization.empty()) return;
  const auto document = read_json(config.parent_path() / kBeside);
  const auto stated = document ? document->value().find("quantization") : std::nullopt;
  if (!stated || !stated->is_object()) return;
  out.quantization.push_back("modelopt " + text_of(*stated, "quant_algo").value_or(""));
  out.quantization_by = kBeside;
}

std::string file_words(const CheckpointSet& set) {
  const std::string_view name = set.format().name;
  if (name == "torch") return "torch.save";
  return name == "ckpt" ? "MindSpore's .ckpt" : std::string(name);
}

std::size_t count_ranks(const CheckpointSet& set) {
  std::size_t count = 0;
  const RankFile* before = nullptr;
  for (const RankFile& file : set.files()) {
    if (before == nullptr || before->rank != file.rank) ++count;
    before = &file;
  }
  return count;
}

}  // namespace

std::vector<Statement> stated_writers(const fs::path& source, const CheckpointSet& set) {
  std::vector<Statement> writers;
  for (auto& stated : {by_manifest(source), by_config(set.completeness().config),
                       by_metadata(set.files().front())}) {
    if (stated) writers.push_back(*stated);
  }
  return writers;
}

void read_config_facts(const fs::path& config, ModelFacts& out) {
  const auto document = read_json(config);
  if (!document) return;
  out.model_type = text_of(document->value(), "model_type").value_or("");
  read_quantization(config, document->value(), out);
  const auto architectures = document->value().find("architectures");
  if (!architectures || !architectures->is_list()) return;
  for (const JsonValue name : *architectures) {
    if (const auto text = name.text()) out.architectures.emplace_back(*text);
  }
}

SetKind kind_of(const std::filesystem::path& source, const CheckpointOptions& options,
                const CheckpointSet& set) {
  const std::string files = file_words(set);
  const bool is_index = is_index_name(source.filename().string());
  if (path_kind(source, options.listed) != PathKind::kDirectory && !is_index) {
    return {std::string(kOneFile), "one file, " + files};
  }
  if (const SetFormat* format = set.described_by()) {
    return {std::string(format->kind), std::string(format->words)};
  }
  const FoundBy& found = set.found_by();
  if (!found.index.empty()) {
    return {std::string(kWholeModel),
            fmt::format("a whole model in {} of {}, which {} lists",
                        counted(set.files().size(), "file"), files, found.index)};
  }
  if (found.are_counted) {
    return {std::string(kWholeModel),
            fmt::format("a whole model in {} of {}, which count each other",
                        counted(set.files().size(), "file"), files)};
  }
  if (found.pattern.empty()) {
    return {std::string(kOneFile),
            fmt::format("a directory with one file, {}, of {}",
                        set.files().front().path.filename().string(), files)};
  }
  return {std::string(kRankFiles),
          fmt::format("a file or more for each of {}, {} ({})", counted(count_ranks(set), "rank"),
                      files, found.pattern)};
}

}  // namespace reshardfs
