// SPDX-License-Identifier: Apache-2.0
#include "view/hf/model_files.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/text.h"
#include "checkpoint/quantized/block_scales.h"
#include "checkpoint/whole/lora_adapter.h"
#include "modelmap/variables.h"
#include "storage/inputs.h"
#include "storage/local/linkless_tree.h"
#include "storage/small_file.h"
#include "view/files/passed_file.h"
#include "view/files/text_file.h"
#include "view/hf/companions.h"
#include "view/hf/shown_config.h"

namespace reshardfs {
namespace {

constexpr const char* kBeside = "hf_quant_config.json";

/// Of the files beside the source.
SourceTreePtr tree_of(const ViewContext& context, const std::filesystem::path& file) {
  const SourceRequest& source = context.options.source;
  return recording(linkless_tree_of(source.no_symlinks ? source.path : "", file), context.inputs);
}

/// nullopt if there is no config.json, or it is no object.
std::optional<JsonDocument> config_of(const ViewContext& context, const SourceTreePtr& tree) {
  if (context.model.config_file.empty()) return std::nullopt;
  auto document = JsonDocument::parse(
      read_small_file(context.model.config_file, modelmap::kMaxConfigBytes, tree));
  if (!document || !document->value().is_object()) return std::nullopt;
  return document;
}

/// Modules with a weight in rows and columns that has no scale.
std::vector<std::string> plain_modules(const TargetTable& table) {
  constexpr std::string_view kWeight = ".weight";
  std::set<std::string_view> names;
  for (const TargetParameter& parameter : table.parameters()) names.insert(parameter.name);
  std::vector<std::string> modules;
  for (const TargetParameter& parameter : table.parameters()) {
    const std::string& name = parameter.name;
    if (!name.ends_with(kWeight) || names.contains(name + "_scale")) continue;
    if (parameter.grid == nullptr || parameter.grid->full_shape().size() < 2) continue;
    modules.push_back(name.substr(0, name.size() - kWeight.size()));
  }
  return modules;
}

/// What is stated of quantization.
ConfigEdits edits_for(const ViewContext& context, const TargetTable& table) {
  ConfigEdits edits{context.options.source.dequantize};
  if (!context.options.source.quantize.empty()) {
    edits.quantization = nv_statement(plain_modules(table)).config;
  }
  return edits;
}

/// What config.json must state otherwise. Warns of what it cannot state.
ConfigEdits edits_of(const ViewContext& context, const std::string& directory,
                     const TargetTable& table, const JsonValue& config, const ShownTypes& types) {
  ConfigEdits edits = edits_for(context, table);
  const std::string file = directory + "/config.json";
  const bool states_quantized = !quantizations_in(config).empty();
  if (!edits.is_dequantized && states_quantized && !types.are_quantized) {
    context.warnings.push_back(
        file +
        " has a quantization_config, but the weights are not quantized: loaders may misread them");
  }
  const std::vector<std::string> stated = stated_types(config);
  if (stated.empty() || types.floats.empty()) return edits;
  const std::string& most = types.floats.front();
  const std::string states = file + " states the type " + stated.front();
  if (types.are_converted && types.floats.size() == 1) {
    const auto differs = [&](const std::string& type) { return type != most; };
    if (std::any_of(stated.begin(), stated.end(), differs)) edits.type = most;
  } else if (stated.front() != most) {
    context.warnings.push_back(
        states + ", but most weights shown are " + most + ": loaders may convert them; " +
        (types.are_converted
             ? "it states one type alone, and these are of several: " + name_list(types.floats)
             : "--cast shows them in another type"));
  }
  return edits;
}

std::shared_ptr<VirtualFile> config_file(const std::filesystem::path& path,
                                         const SourceTreePtr& tree, const ConfigEdits& edits) {
  if (!edits.any()) return std::make_shared<PassedFile>(path, tree);
  try {
    return std::make_shared<TextFile>(
        edited_config(read_small_file(path, modelmap::kMaxConfigBytes, tree), edits));
  } catch (Error& error) {
    throw error.in_file(path.string());
  }
}

bool has_adapter(const std::string& directory, const std::vector<OutputFile>& files) {
  return std::any_of(files.begin(), files.end(), [&](const OutputFile& file) {
    return file.path.starts_with(directory + "/") &&
           is_adapter_file(file.path.substr(directory.size() + 1));
  });
}

/// What would describe other weights than those that are shown.
bool misleads(const ViewContext& context, const std::filesystem::path& file, bool with_adapter) {
  const SourceRequest& source = context.options.source;
  return (file == kBeside && (source.dequantize || !source.quantize.empty())) ||
         (file == "adapter_config.json" && !with_adapter);
}

}  // namespace

void add_model_files(const ViewContext& context, const TargetTable& table,
                     const std::string& directory, const TakesParameter& is_weight,
                     std::vector<OutputFile>& files) {
  const ShownModel& model = context.model;
  const bool with_adapter = has_adapter(directory, files);
  if (model.config_file.empty() && !with_adapter) {
    context.warnings.push_back(
        directory + "/ has no config.json and no tokenizer: --model-config DIR brings them");
    return;
  }
  // An adapter has no such file, but companions of its own.
  const std::filesystem::path beside = model.config_file.empty()
                                           ? table.source().checkpoint().files().front().path
                                           : model.config_file;
  const SourceTreePtr tree = tree_of(context, beside);
  ConfigEdits edits = edits_for(context, table);
  if (const auto config = config_of(context, tree)) {
    edits = edits_of(context, directory, table, config->value(), shown_types(table, is_weight));
  }
  if (!context.options.source.quantize.empty()) {
    files.push_back({directory + "/" + kBeside,
                     std::make_shared<TextFile>(nv_statement(plain_modules(table)).beside)});
  }
  if (!model.config_file.empty()) {
    files.push_back({directory + "/config.json", config_file(model.config_file, tree, edits)});
    if (!model.has_directory) return;
  }
  const std::filesystem::path from = beside.parent_path();
  const Companions companions = companions_in(from, tree);
  for (const std::filesystem::path& file : companions.files) {
    if (from / file == model.config_file || misleads(context, file, with_adapter)) continue;
    files.push_back(
        {directory + "/" + file.string(), std::make_shared<PassedFile>(from / file, tree)});
  }
  if (!companions.left_out.empty() && !context.options.views.empty()) {
    context.warnings.push_back(directory + "/ does not have these folders of the source: " +
                               name_list(companions.left_out) +
                               "; copy those that programs need to load the model");
  }
}

void require_model(const TargetTable& whole, const std::string& directory) {
  const CheckpointSet& set = whole.source().checkpoint();
  if (set.adapter().empty()) return;
  throw Error(ErrorKind::kUsage, directory + " is for models, and the source is " + set.adapter())
      .in_file(set.root().string())
      .hint(
          "merge it with its model in MindSpore Transformers first; other views show its tensors");
}

bool states_tied_embeddings(const ViewContext& context) {
  const auto config = config_of(context, tree_of(context, context.model.config_file));
  return config && config->value()["tie_word_embeddings"].boolean() == true;
}

bool states_quantization(const ViewContext& context) {
  if (context.options.source.dequantize) return false;
  const auto config = config_of(context, tree_of(context, context.model.config_file));
  return config && !quantizations_in(config->value()).empty();
}

}  // namespace reshardfs
