// SPDX-License-Identifier: Apache-2.0
/// vllm/: what vLLM loads with --load-format sharded_state: for each tensor-parallel rank the
/// tensors of its modules, before anything that quantization makes of them, and the model's
/// companions (vllm-project/vllm vllm/model_executor/model_loader/sharded_state_loader.py).
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "conversion/completeness.h"
#include "format/safetensors/safetensors_writer.h"
#include "layout/slicing.h"
#include "plan/target/target_table.h"
#include "view/files/safetensors_file.h"
#include "view/files/shown_words.h"
#include "view/files/text_file.h"
#include "view/hf/model_files.h"
#include "view/shown_side.h"
#include "view/view.h"
#include "view/weights.h"

namespace reshardfs {
namespace {

/// The bytes of a safetensors file with the scales that vLLM's attention keeps beside the weights:
/// four for each layer, each the scalar 1.0 in float32. Its loader misses them where they are not
/// in the files; they matter for an 8-bit cache of keys and values alone, and have this value where
/// a checkpoint has none (vllm-project/vllm vllm/model_executor/layers/attention/attention.py,
/// set_default_quant_scales). Empty if no weight is of an attention.
/// @param weights with the names of vLLM's modules.
/// @throws Error as make_header().
std::string attention_scales(const std::vector<const TargetParameter*>& weights,
                             std::uint64_t align) {
  constexpr std::string_view kFused = ".qkv_proj.weight";
  std::deque<std::string> names;
  std::vector<safetensors::HeaderTensor> scales;
  for (const TargetParameter* weight : weights) {
    if (!weight->name.ends_with(kFused)) continue;
    const std::string attention = weight->name.substr(0, weight->name.size() - kFused.size());
    for (const std::string_view scale : {"_k_scale", "_prob_scale", "_q_scale", "_v_scale"}) {
      names.push_back(attention + ".attn." + std::string(scale));
      scales.push_back({names.back(), DType::kFloat32, {}});
    }
  }
  if (scales.empty()) return {};
  std::string file = safetensors::make_header(scales, {{"format", "pt"}}, align).bytes;
  const auto one = std::bit_cast<std::uint32_t>(1.0F);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    for (std::size_t byte = 0; byte < sizeof(one); ++byte) {
      file += static_cast<char>(one >> (8 * byte) & 0xff);
    }
  }
  return file;
}

constexpr const char* kVllmDirectory = "vllm";
/// The second one of versions whose attention has no scales.
constexpr std::array<std::string_view, 2> kVllmSides{"vLLM", "vLLM without scales"};

/// Along which dimension vLLM's ranks share a tensor; nothing: each has all of it. Of all modules
/// that the maps know (vllm/model_executor/layers/linear.py and vocab_parallel_embedding.py).
std::optional<std::size_t> shared_dimension(std::string_view name) {
  for (const std::string_view rows : {"embed_tokens.weight", "lm_head.weight", "qkv_proj.weight",
                                      "qkv_proj.bias", "gate_up_proj.weight"}) {
    if (name.ends_with(rows)) return 0;
  }
  for (const std::string_view columns : {"o_proj.weight", "down_proj.weight"}) {
    if (name.ends_with(columns)) return 1;
  }
  return std::nullopt;
}

std::string words_for_shares(const std::optional<std::size_t>& dimension, std::int64_t ranks) {
  if (!dimension) return "the whole tensor on each rank";
  return "dimension " + std::to_string(*dimension) + " divided among " +
         counted(static_cast<std::size_t>(ranks), "rank") + " in order";
}

/// Whether rank r has part r of as many equal parts of the dimension, and all of the others.
bool is_shared_so(const Slicing& slicing, const std::optional<std::size_t>& dimension,
                  std::int64_t ranks) {
  if (dimension && *dimension >= slicing.full_shape().size()) return false;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::vector<std::int64_t> parts = slicing.parts_of(rank);
    const Shape& full = slicing.full_shape();
    const Shape slice = slicing.slice_shape(rank);
    for (std::size_t d = 0; d < full.size(); ++d) {
      const bool shared = dimension && d == *dimension && ranks > 1;
      if (shared ? parts[d] != rank || slice[d] * ranks != full[d] : slice[d] != full[d]) {
        return false;
      }
    }
  }
  return true;
}

/// @throws Error kUsage with the parameter, unless the target strategy cuts it as vLLM does.
void require_shares(const TargetTable& target, const TargetParameter& parameter) {
  const std::int64_t ranks = target.rank_count();
  const auto dimension = shared_dimension(parameter.name);
  bool shared = false;
  if (parameter.treatment == Treatment::kReshard) {
    const auto& slicing = parameter.cuts().front();
    shared = slicing != nullptr && is_shared_so(*slicing, dimension, ranks);
  } else if (parameter.treatment == Treatment::kKeep) {
    shared = ranks == 1 || !dimension;
  }
  if (shared) return;
  throw Error(ErrorKind::kUsage, "vLLM needs " + words_for_shares(dimension, ranks) +
                                     ", but the target strategy cuts it differently")
      .for_parameter(parameter.name)
      .hint("give the number of vLLM's tensor-parallel ranks: --dst-strategy tp=" +
            std::to_string(ranks));
}

void require_one_stage(const TargetTable& target) {
  if (!target.strategy() || target.strategy()->devices_per_stage() == target.rank_count()) return;
  throw Error(ErrorKind::kUsage,
              "--views vllm cannot have pipeline stages: vLLM names a file by its tensor-parallel "
              "rank alone")
      .hint("give sizes with tp alone: --dst-strategy tp=" +
            std::to_string(target.strategy()->devices_per_stage()));
}

/// The maps arrange rows for a number of ranks.
void require_stated_ranks(const ViewContext& context) {
  constexpr std::string_view kStated = "tp=";
  const std::int64_t ranks = context.target->rank_count();
  for (const std::string& variable : context.options.source.maps.variables) {
    if (!variable.starts_with(kStated)) continue;
    if (parse_number(std::string_view(variable).substr(kStated.size())) == ranks) continue;
    throw Error(ErrorKind::kUsage, "--map-var " + printable(variable) + ", but the target has " +
                                       counted(static_cast<std::size_t>(ranks), "rank"))
        .hint("leave it out: the target strategy states the number of ranks");
  }
}

/// @throws Error kUnsupported for weights that vLLM would need other names and forms for.
void require_plain_type(const TargetParameter& parameter) {
  const DType dtype = parameter.dtype;
  if (dtype == DType::kBFloat16 || dtype == DType::kFloat16 || dtype == DType::kFloat32) return;
  throw Error(ErrorKind::kUnsupported,
              "is " + std::string(mindspore_name(dtype)) +
                  ": --views vllm is for weights in bfloat16, float16 and float32")
      .for_parameter(parameter.name)
      .hint("--views hf has quantized weights as they are, which vLLM loads by default");
}

std::string vllm_file(Rank rank, int part) {
  return std::string(kVllmDirectory) + "/model-rank-" + to_string(rank) + "-part-" +
         std::to_string(part) + ".safetensors";
}

}  // namespace

std::vector<OutputFile> vllm_view(const ViewContext& context) {
  require_shown_side(context, "vllm", kVllmSides);
  const TargetTable& target = *context.target;
  require_one_stage(target);
  require_stated_ranks(context);
  if (states_quantization(context)) {
    throw Error(
        ErrorKind::kUnsupported,
        "has a quantization_config, for which vLLM asks for other tensors than --views vllm "
        "has")
        .in_file(context.model.config_file.string())
        .hint(
            "--views hf has quantized weights as they are; for weights that are not quantized, "
            "give a config.json without it (--model-config)");
  }
  require_complete(target, context.ranks);
  const TakesParameter is_weight = weights_alone(context);
  std::vector<const TargetParameter*> weights;
  for (const TargetParameter& parameter : target.parameters()) {
    if (!is_array(parameter.dtype) || !is_weight(parameter)) continue;
    require_plain_type(parameter);
    require_shares(target, parameter);
    weights.push_back(&parameter);
  }
  if (weights.empty()) {
    throw Error(ErrorKind::kMissing, "no tensor that is shown is a weight, which vllm/ needs");
  }
  const auto common = with_words(safetensors_common(context, SafetensorsKind::kOwn, "pt"),
                                 shown_words(context, {target, is_weight}).header);
  const std::string scales = context.model.side == kVllmSides.front()
                                 ? attention_scales(weights, common->align)
                                 : std::string();
  std::vector<OutputFile> files;
  for (const Rank rank : context.ranks) {
    files.push_back({vllm_file(rank, 0),
                     std::make_shared<SafetensorsFile>(context.target, rank, weights, common)});
    if (scales.empty()) continue;
    files.push_back({vllm_file(rank, 1), std::make_shared<TextFile>(SharedText(scales))});
  }
  if (context.ranks.size() < static_cast<std::size_t>(target.rank_count())) {
    context.warnings.emplace_back("vllm/ has only the files of --ranks");
  }
  add_model_files(context, target, kVllmDirectory, is_weight, files);
  return files;
}

}  // namespace reshardfs
