// SPDX-License-Identifier: Apache-2.0
#include "view/hf/model_files.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/text.h"
#include "checkpoint/quantized/block_scales.h"
#include "modelmap/variables.h"
#include "storage/local/linkless_tree.h"
#include "storage/small_file.h"
#include "view/files/passed_file.h"
#include "view/files/text_file.h"
#include "view/hf/companions.h"

namespace reshardfs {
namespace {

/// As config.json has it; nothing for a type that is not for weights.
std::optional<std::string> torch_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    default:
      return std::nullopt;
  }
}

/// The type of most elements that are shown.
std::optional<std::string> usual_type(const TargetTable& table, const TakesParameter& takes) {
  std::map<DType, std::int64_t> elements;
  for (const TargetParameter& parameter : table.parameters()) {
    if (!is_array(parameter.dtype) || parameter.grid == nullptr || !takes(parameter)) continue;
    elements[parameter.dtype] += element_count(parameter.grid->full_shape());
  }
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  return most == elements.end() ? std::nullopt : torch_name(most->first);
}

/// The text of the first of these keys that is one.
std::string text_of(const JsonValue& config, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const auto found = config.find(key);
    if (found && found->text()) return std::string(*found->text());
  }
  return {};
}

/// Of the files beside the source, if symbolic links are refused there.
SourceTreePtr tree_of(const ViewContext& context) {
  return linkless_tree_of(context.options.source.no_symlinks ? context.options.source.path : "",
                          context.model.config_file);
}

/// nullopt if there is no config.json, or it is no object.
std::optional<JsonDocument> config_of(const ViewContext& context, const SourceTreePtr& tree) {
  if (context.model.config_file.empty()) return std::nullopt;
  auto document = JsonDocument::parse(
      read_small_file(context.model.config_file, modelmap::kMaxConfigBytes, tree));
  if (!document || !document->value().is_object()) return std::nullopt;
  return document;
}

/// What loaders would take from config.json that is not so.
void warn_of_config(const ViewContext& context, const std::string& directory,
                    const JsonValue& config, const std::optional<std::string>& type,
                    bool is_quantized) {
  std::string stated = text_of(config, {"torch_dtype", "dtype"});
  const auto inner = config.find("text_config");
  if (stated.empty() && inner) stated = text_of(*inner, {"torch_dtype", "dtype"});
  if (!stated.empty() && type && stated != *type) {
    context.warnings.push_back(directory + "/config.json states the type " + printable(stated) +
                               ", but most weights shown are " + *type +
                               ": loaders may convert them; --cast shows them in another type");
  }
  if (!is_quantized && config.find("quantization_config")) {
    context.warnings.push_back(directory +
                               "/config.json has a quantization_config, but the weights are not "
                               "quantized: loaders may misread them");
  }
}

std::vector<std::filesystem::path> companions_of(const ShownModel& model) {
  if (model.config_file.empty()) return {};
  if (model.has_directory) return companions_in(model.config_file.parent_path());
  return {model.config_file};
}

/// A config.json that does not call its weights quantized.
std::shared_ptr<VirtualFile> dequantized_config(const std::filesystem::path& path,
                                                const SourceTreePtr& tree) {
  try {
    return std::make_shared<TextFile>(
        without_quantization(read_small_file(path, modelmap::kMaxConfigBytes, tree)));
  } catch (Error& error) {
    throw error.in_file(path.string());
  }
}

/// Whether weights are shown as they are quantized.
bool shows_quantized(const TargetTable& table, const TakesParameter& takes) {
  const auto& parameters = table.parameters();
  return std::any_of(parameters.begin(), parameters.end(), [&](const TargetParameter& parameter) {
    return is_block_weight(parameter.dtype) && takes(parameter);
  });
}

}  // namespace

void add_model_files(const ViewContext& context, const TargetTable& table,
                     const std::string& directory, const TakesParameter& is_weight,
                     std::vector<OutputFile>& files) {
  const SourceTreePtr tree = tree_of(context);
  const ShownModel& model = context.model;
  for (const std::filesystem::path& path : companions_of(model)) {
    const bool is_config = path == model.config_file;
    const std::string name = is_config ? "config.json" : path.filename().string();
    files.push_back({directory + "/" + name, is_config && context.options.source.dequantize
                                                 ? dequantized_config(path, tree)
                                                 : std::make_shared<PassedFile>(path, tree)});
  }
  if (model.config_file.empty()) {
    context.warnings.push_back(
        directory + "/ has no config.json and no tokenizer: --model-config DIR brings them");
    return;
  }
  const auto config = config_of(context, tree);
  if (!config) return;
  warn_of_config(context, directory, config->value(), usual_type(table, is_weight),
                 context.options.source.dequantize || shows_quantized(table, is_weight));
}

bool states_quantization(const ViewContext& context) {
  if (context.options.source.dequantize) return false;
  const auto config = config_of(context, tree_of(context));
  return config && config->value().find("quantization_config");
}

}  // namespace reshardfs
