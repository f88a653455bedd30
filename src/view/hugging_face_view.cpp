// SPDX-License-Identifier: Apache-2.0
/// merged/model-<k>-of-<n>.safetensors and model.safetensors.index.json: the whole model as it is
/// published on model hubs, and as their libraries load it.
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "view/text_file.h"
#include "view/view.h"

namespace reshardfs {
namespace {

using Shard = std::vector<const TargetParameter*>;

std::uint64_t bytes_of(const TargetTable& whole, const TargetParameter& parameter) {
  return static_cast<std::uint64_t>(element_count(whole.slice_shape(parameter, 0)) *
                                    element_size(parameter.dtype));
}

/// In the model's order, each shard as full as it can be.
std::vector<Shard> shards_of(const TargetTable& whole, std::uint64_t limit) {
  std::vector<Shard> shards;
  std::uint64_t filled = 0;
  for (const TargetParameter* parameter : arrays_of(whole, 0)) {
    const std::uint64_t bytes = bytes_of(whole, *parameter);
    const bool fits = !shards.empty() && filled <= limit && bytes <= limit - filled;
    if (!fits) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(parameter);
    filled += bytes;
  }
  return shards;
}

}  // namespace

std::vector<OutputFile> hugging_face_view(const ViewContext& context) {
  if (context.whole == nullptr) return {};
  const std::vector<Shard> shards = shards_of(*context.whole, context.options.shard_bytes);
  if (shards.empty()) return {};
  // Those libraries refuse a file whose format is not one of theirs. Texts stay in the other views.
  const auto common = safetensors_common(context, "pt");
  std::vector<OutputFile> files;
  std::map<std::string, std::string> places;
  std::uint64_t total = 0;
  try {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const std::string name =
          fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
      for (const TargetParameter* parameter : shards[i]) {
        places.emplace(parameter->name, name);
        total += bytes_of(*context.whole, *parameter);
      }
      files.push_back({"merged/" + name,
                       std::make_shared<SafetensorsFile>(context.whole, 0, shards[i], common)});
    }
  } catch (const Error& error) {
    context.warnings.push_back(std::string("no merged/model-*.safetensors: ") + error.what());
    return {};
  }
  const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", places}};
  files.push_back({"merged/model.safetensors.index.json",
                   std::make_shared<TextFile>(index.dump(2, ' ', /*ensure_ascii=*/true) + "\n")});
  return files;
}

}  // namespace reshardfs
