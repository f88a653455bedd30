// SPDX-License-Identifier: Apache-2.0
/// hf/: the model as the directory that transformers, vLLM and others load: shards with weights
/// alone, their index, and the files that go with the model's config.json.
#include <algorithm>
#include <map>
#include <optional>

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
#include "view/merged/hub_shards.h"
#include "view/weights.h"

namespace reshardfs {
namespace {

constexpr const char* kModelDirectory = "hf";

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
std::optional<std::string> usual_type(const TargetTable& whole, const TakesParameter& takes) {
  std::map<DType, std::int64_t> elements;
  for (const TargetParameter* parameter : arrays_of(whole, kWholeRank)) {
    if (!takes(*parameter)) continue;
    elements[parameter->dtype] += element_count(whole.slice_shape(*parameter, kWholeRank));
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

/// What loaders would take from config.json that is not so.
std::vector<std::string> config_warnings(const std::filesystem::path& file,
                                         const SourceTreePtr& tree,
                                         const std::optional<std::string>& type,
                                         bool is_quantized) {
  const auto document = JsonDocument::parse(read_small_file(file, modelmap::kMaxConfigBytes, tree));
  if (!document || !document->value().is_object()) return {};
  const JsonValue config = document->value();
  std::vector<std::string> warnings;
  std::string stated = text_of(config, {"torch_dtype", "dtype"});
  const auto inner = config.find("text_config");
  if (stated.empty() && inner) stated = text_of(*inner, {"torch_dtype", "dtype"});
  if (!stated.empty() && type && stated != *type) {
    warnings.push_back("hf/config.json states the type " + printable(stated) +
                       ", but most weights shown are " + *type +
                       ": loaders may convert them; --cast shows them in another type");
  }
  if (!is_quantized && config.find("quantization_config")) {
    warnings.emplace_back(
        "hf/config.json has a quantization_config, but the weights are not quantized: loaders may "
        "misread them");
  }
  return warnings;
}

std::vector<std::filesystem::path> companions_of(const ShownModel& model) {
  if (model.config_file.empty()) return {};
  if (model.has_directory) return companions_in(model.config_file.parent_path());
  return {model.config_file};
}

/// Of the files beside the source, if symbolic links are refused there.
SourceTreePtr tree_of(const ViewContext& context) {
  return linkless_tree_of(context.options.no_symlinks ? context.options.source : "",
                          context.model.config_file);
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
bool shows_quantized(const TargetTable& whole, const TakesParameter& takes) {
  const auto arrays = arrays_of(whole, kWholeRank);
  return std::any_of(arrays.begin(), arrays.end(), [&](const TargetParameter* parameter) {
    return takes(*parameter) && is_block_weight(parameter->dtype);
  });
}

void add_companions(const ViewContext& context, const SourceTreePtr& tree,
                    std::vector<OutputFile>& files) {
  const ShownModel& model = context.model;
  for (const std::filesystem::path& path : companions_of(model)) {
    const bool is_config = path == model.config_file;
    const std::string name = is_config ? "config.json" : path.filename().string();
    files.push_back({std::string(kModelDirectory) + "/" + name,
                     is_config && context.options.dequantize
                         ? std::shared_ptr<VirtualFile>(dequantized_config(path, tree))
                         : std::make_shared<PassedFile>(path, tree)});
  }
}

}  // namespace

std::vector<OutputFile> hugging_face_view(const ViewContext& context) {
  const bool asked = !context.options.views.empty();
  if (context.whole == nullptr || (!asked && context.model.side != "Hugging Face")) return {};
  const TakesParameter is_weight = weights_alone(context);
  std::vector<OutputFile> files;
  try {
    files = hub_shards(context, kModelDirectory, is_weight);
    if (files.empty()) {
      throw Error(ErrorKind::kMissing,
                  "no tensor that is shown is a weight: all are states of training")
          .hint("--views hub shows these, too");
    }
  } catch (const Error& error) {
    context.leave_out(ViewKind::kHuggingFace, "hf/", error);
    return {};
  }
  const SourceTreePtr tree = tree_of(context);
  add_companions(context, tree, files);
  if (!context.model.side.empty() && context.model.side != "Hugging Face") {
    context.warnings.push_back("hf/ has the names of " + printable(context.model.side) +
                               ", which loaders of Hugging Face's models do not know");
  }
  if (context.model.config_file.empty()) {
    context.warnings.emplace_back(
        "hf/ has no config.json and no tokenizer: --model-config DIR brings them");
  } else {
    for (std::string& warning : config_warnings(
             context.model.config_file, tree, usual_type(*context.whole, is_weight),
             context.options.dequantize || shows_quantized(*context.whole, is_weight))) {
      context.warnings.push_back(std::move(warning));
    }
  }
  return files;
}

}  // namespace reshardfs
