// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_names.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

/// Under which the file for all ranks is kept.
constexpr std::int64_t kOfAllRanks = 0;
constexpr std::string_view kModelEnd = "_model_states.pt";
constexpr std::string_view kOptimizerEnd = "_optim_states.pt";
constexpr const char* kUniversal =
    "convert it with DeepSpeed's ds_to_universal.py, and name the directory that it writes as the "
    "source";

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

bool is_of_experts(std::string_view name) {
  return name.ends_with(kModelEnd) && name.find("expert") != std::string_view::npos;
}

/// Of a run without ZeRO.
bool is_expert_optimizer(std::string_view name) {
  return name.ends_with(kOptimizerEnd) && name.starts_with("expp_rank_");
}

/// "layer_0_expert_3_mp_rank_00_model_states.pt", of no tensor parallelism: the layer and the
/// expert.
std::optional<std::pair<std::int64_t, std::int64_t>> parse_expert_name(std::string_view name) {
  if (!take_word(name, "layer_")) return std::nullopt;
  const auto layer = take_number<std::int64_t>(name);
  if (!layer || !take_word(name, "_expert_")) return std::nullopt;
  const auto expert = take_number<std::int64_t>(name);
  if (!expert || name != "_mp_rank_00_model_states.pt") return std::nullopt;
  return std::pair(*layer, *expert);
}

struct LayerName {
  std::int64_t layer = 0;
  std::int64_t tensor_rank = 0;
};

/// "layer_03-model_states.pt", "layer_03-model_00-model_states.pt"
std::optional<LayerName> parse_layer_name(std::string_view name) {
  LayerName out;
  if (!name.ends_with("-model_states.pt") || !take_word(name, "layer_")) return std::nullopt;
  const auto layer = take_number<std::int64_t>(name);
  if (!layer || !take_word(name, "-model_")) return std::nullopt;
  out.layer = *layer;
  if (name == "states.pt") return out;
  const auto rank = take_number<std::int64_t>(name);
  if (!rank || name != "-model_states.pt") return std::nullopt;
  out.tensor_rank = *rank;
  return out;
}

}  // namespace

std::optional<ZeroFileName> parse_zero_name(std::string_view name) {
  ZeroFileName out;
  out.optimizer = name.ends_with(kOptimizerEnd);
  if (!out.optimizer && !name.ends_with(kModelEnd)) return std::nullopt;
  name.remove_suffix(out.optimizer ? kOptimizerEnd.size() : kModelEnd.size());
  if (!take_word(name, "bf16_")) take_word(name, "fp16_");
  if (take_word(name, "zero_pp_rank_")) {
    out.data = take_number<std::int64_t>(name);
    if (!out.data || !take_word(name, "_")) return std::nullopt;
  }
  if (!take_word(name, "mp_rank_")) return std::nullopt;
  const auto model = take_number<std::int64_t>(name);
  if (!model || !name.empty() || (out.optimizer && !out.data)) return std::nullopt;
  out.model = *model;
  return out;
}

Error uncut_zero(const std::filesystem::path& directory, const std::string& file) {
  return Error(ErrorKind::kUnsupported, "is a checkpoint of DeepSpeed with tensor parallelism (" +
                                            printable(file) +
                                            "), and no file states how tensors are cut by it")
      .in_file(directory.string())
      .hint(kUniversal);
}

std::optional<ZeroStep> find_zero_files(const std::filesystem::path& directory,
                                        const SourceTreePtr& tree) {
  ZeroStep step;
  std::string of_tensors;
  bool has_expert_optimizer = false;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (!entry.is_regular) continue;
    if (is_of_experts(entry.name)) {
      if (entry.is_link && refuses_links(tree)) throw link_refused(directory / entry.name);
      const auto expert = parse_expert_name(entry.name);
      if (expert) step.experts.emplace(*expert, entry.name);
      step.has_other_experts = step.has_other_experts || !expert;
      continue;
    }
    has_expert_optimizer = has_expert_optimizer || is_expert_optimizer(entry.name);
    const auto layer = parse_layer_name(entry.name);
    const auto name = parse_zero_name(entry.name);
    if (!layer && !name) continue;
    if (entry.is_link && refuses_links(tree)) throw link_refused(directory / entry.name);
    if (layer) {
      if (layer->tensor_rank != 0) of_tensors = entry.name;
      step.layers.emplace(layer->layer, entry.name);
      continue;
    }
    ZeroFiles& files = step.parts[name->model];
    if (!name->optimizer && name->data) files.model_of_each_rank = true;
    auto& known = name->optimizer ? files.optimizer : files.model;
    const auto [place, is_new] = known.emplace(name->data.value_or(kOfAllRanks), entry.name);
    if (is_new) continue;
    throw Error(ErrorKind::kBadInput, "has two files of one rank: '" + printable(place->second) +
                                          "' and '" + printable(entry.name) + "'")
        .in_file(directory.string())
        .hint("keep those of one save");
  }
  if (step.parts.empty()) return std::nullopt;
  if (has_expert_optimizer && step.experts.empty()) step.has_other_experts = true;
  if (!of_tensors.empty()) throw uncut_zero(directory, of_tensors);
  return step;
}

std::optional<std::string> parse_zero_tag(std::string_view name) {
  constexpr std::string_view kBegin = "global_step";
  if (!name.starts_with(kBegin)) return std::nullopt;
  const auto step = parse_number(name.substr(kBegin.size()));
  return step ? std::optional(std::to_string(*step)) : std::nullopt;
}

std::optional<std::string> parse_universal_tag(std::string_view name) {
  constexpr std::string_view kBegin = "global_step";
  constexpr std::string_view kEnd = "_universal";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  if (name.size() <= kEnd.size()) return std::nullopt;
  const auto step = parse_number(name.substr(0, name.size() - kEnd.size()));
  return step ? std::optional(std::to_string(*step)) : std::nullopt;
}

}  // namespace reshardfs
