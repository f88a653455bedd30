// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/layer_numbers.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/megatron/hybrid_layers.h"

namespace reshardfs {
namespace {

constexpr const char* kNoopLayers = "noop_layers";
constexpr std::int64_t kNoLayer = -1;

/// Arguments by which stages have different numbers of layers.
constexpr std::array<std::string_view, 6> kUnevenStages{
    "decoder_first_pipeline_num_layers",       "decoder_last_pipeline_num_layers",
    "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
    "pipeline_model_parallel_layout",          "num_layer_list"};

bool is_folded(const MegatronArgs& args) {
  return args.text("schedules_method") == "dualpipev";
}

/// The chunks in the order of their layers, each as a stage and the number of its chunk.
std::vector<std::pair<std::size_t, std::size_t>> in_order(const StageLayers& layers, bool folded) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  std::size_t chunks = 0;
  for (const auto& stage : layers) chunks = std::max(chunks, stage.size());
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::size_t stage = folded && chunk == 1 ? layers.size() - 1 - i : i;
      if (chunk < layers[stage].size()) out.emplace_back(stage, chunk);
    }
  }
  return out;
}

std::int64_t total(const StageLayers& layers) {
  std::size_t total = 0;
  for (const auto& stage : layers) {
    for (const auto& chunk : stage) total += chunk.size();
  }
  return static_cast<std::int64_t>(total);
}

std::set<std::int64_t> noop_layers(const MegatronArgs& args) {
  if (!args.is_set(kNoopLayers)) return {};
  if (auto numbers = args.numbers(kNoopLayers)) return std::move(*numbers);
  throw Error(
      ErrorKind::kUnsupported,
      "states " + args.words(kNoopLayers) +
          " as noop_layers in its arguments, which do not tell the numbers of the other layers")
      .hint("bring the files as MindSpeed saved them");
}

[[noreturn]] void refuse_number(const MegatronArgs& args, std::int64_t found, std::size_t noop) {
  const std::string without =
      noop == 0 ? "" : ", and noop_layers " + args.words(kNoopLayers) + " among them";
  throw Error(ErrorKind::kBadInput, "has " + counted(static_cast<std::size_t>(found), "layer") +
                                        " in all stages, but the arguments state num_layers " +
                                        args.words("num_layers") + without)
      .hint("bring the files of all ranks from one save");
}

/// How many layers each chunk has, where the files do not show it.
std::int64_t layers_of_each(const MegatronArgs& args, std::int64_t layers, std::size_t chunks) {
  for (const std::string_view name : kUnevenStages) {
    if (!args.is_set(name)) continue;
    throw Error(ErrorKind::kUnsupported, "was saved with " + std::string(name) + " " +
                                             args.words(name) + " and noop_layers " +
                                             args.words(kNoopLayers) +
                                             ": which stage has which layer is unknown")
        .hint("convert it with the tools of MindSpeed-LLM");
  }
  const auto number = static_cast<std::int64_t>(chunks);
  if (number != 0 && layers % number == 0) return layers / number;
  throw Error(ErrorKind::kBadInput, "states num_layers " + std::to_string(layers) +
                                        " in its arguments, and " + counted(chunks, "part") +
                                        " of the model, which cannot share them equally")
      .hint("bring the files of all ranks from one save");
}

}  // namespace

std::size_t stated_chunks(const MegatronArgs& args) {
  if (is_folded(args)) return 2;
  return static_cast<std::size_t>(args.size_or_one("virtual_pipeline_model_parallel_size"));
}

LayerNumbers::LayerNumbers(const MegatronArgs& args, const StageLayers& layers) {
  const std::set<std::int64_t> noop = noop_layers(args);
  const auto stated = args.number("num_layers");
  const std::int64_t found = total(layers);
  const auto all = found + static_cast<std::int64_t>(noop.size());
  if ((stated && found != 0 && all != *stated) || (!stated && !noop.empty())) {
    refuse_number(args, found, noop.size());
  }
  const auto order = in_order(layers, is_folded(args));
  const auto pattern = layer_pattern_text(args);
  const std::vector<std::int64_t> lengths =
      pattern ? layers_of_chunks(args, *pattern, order.size()) : std::vector<std::int64_t>();
  const std::int64_t each = noop.empty() ? 0 : layers_of_each(args, all, order.size());
  for (const auto& stage : layers) numbers_.emplace_back(stage.size());

  std::int64_t position = 0;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [stage, chunk] = order[i];
    const std::vector<std::int64_t>& here = layers[stage][chunk];
    std::int64_t count = noop.empty() ? static_cast<std::int64_t>(here.size()) : each;
    if (pattern) count = lengths[i];
    std::vector<std::int64_t> expected;
    for (std::int64_t local = 0; local < count; ++local, ++position) {
      const bool is_noop = noop.contains(position);
      numbers_[stage][chunk].push_back(is_noop ? kNoLayer : next++);
      if (!is_noop) expected.push_back(local);
    }
    if (here == expected) continue;
    const auto difference =
        std::mismatch(here.begin(), here.end(), expected.begin(), expected.end());
    const std::string of_stage = " of pipeline stage " + std::to_string(stage);
    const std::string by =
        noop.empty() ? "" : ", of which noop_layers " + args.words(kNoopLayers) + " are not layers";
    throw Error(ErrorKind::kBadInput,
                difference.second == expected.end()
                    ? "has layer " + std::to_string(*difference.first) + of_stage +
                          ", which the arguments do not state" + by
                    : "has no layer " + std::to_string(*difference.second) + of_stage + by)
        .hint("bring the files of all ranks as they were saved");
  }
}

}  // namespace reshardfs
