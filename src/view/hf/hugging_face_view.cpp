// SPDX-License-Identifier: Apache-2.0
/// hf/: the model as the directory that transformers, vLLM and others load: shards with weights
/// alone, their index, and the files that go with the model's config.json.
#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "checkpoint/whole/lora_adapter.h"
#include "conversion/auto_map.h"
#include "conversion/installed_maps.h"
#include "view/hf/model_files.h"
#include "view/merged/hub_shards.h"
#include "view/weights.h"

namespace reshardfs {
namespace {

constexpr const char* kModelDirectory = "hf";

/// Loaders know an adapter by the name of its file, and ask for no index.
void name_adapter(const ViewContext& context, std::vector<OutputFile>& files) {
  const std::vector<RankFile>& stored = context.whole->source().checkpoint().files();
  const bool is_adapter = std::all_of(stored.begin(), stored.end(), [](const RankFile& file) {
    return is_adapter_file(file.path.filename().string());
  });
  if (!is_adapter || files.size() != 2) return;
  files.pop_back();
  files.front().path = std::string(kModelDirectory) + "/adapter_model.safetensors";
}

bool has_config(const ViewContext& context) {
  return !context.model.config_file.empty();
}

/// Whether the names may be those of Hugging Face's models without being asked for: a map shows
/// them, or there is the config.json of the model, and no map.
bool may_be_known(const ViewContext& context) {
  const std::string& side = context.model.side;
  return side == kHuggingFaceSide || (side.empty() && has_config(context));
}

/// Loaders of Hugging Face's models would begin with random weights.
/// @throws Error kUsage for such names beside a config.json, which asks for these loaders.
void note_unknown_names(const ViewContext& context, const TakesParameter& is_weight) {
  if (!context.model.side.empty()) return;
  std::vector<std::string> names;
  for (const TargetParameter& parameter : context.whole->parameters()) {
    if (is_array(parameter.dtype) && is_weight(parameter)) names.push_back(parameter.name);
  }
  const std::string maps = hugging_face_maps(
      names, {}, known_source(context.options.source, context.whole->source().checkpoint()));
  if (maps.empty()) return;
  constexpr const char* kUnknown =
      "the names of the tensors are not those of Hugging Face's models, which hf/ is for";
  if (!has_config(context)) {
    context.warnings.push_back(fmt::format("{}; give {}", kUnknown, maps));
    return;
  }
  throw Error(ErrorKind::kUsage, kUnknown)
      .for_parameter(names.front())
      .hint("give " + maps + ", or take --views hub, which has them as they are");
}

}  // namespace

std::vector<OutputFile> hugging_face_view(const ViewContext& context) {
  const bool asked = !context.options.views.empty();
  if (context.whole == nullptr || (!asked && !may_be_known(context))) return {};
  const TakesParameter is_weight = weights_alone(context);
  std::vector<OutputFile> files;
  try {
    require_model(*context.whole, std::string(kModelDirectory) + "/");
    note_unknown_names(context, is_weight);
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
  if (!context.model.side.empty() && context.model.side != kHuggingFaceSide) {
    context.warnings.push_back("hf/ has the names of " + printable(context.model.side) +
                               ", which loaders of Hugging Face's models do not know");
  }
  name_adapter(context, files);
  add_model_files(context, *context.whole, kModelDirectory, is_weight, files);
  return files;
}

}  // namespace reshardfs
