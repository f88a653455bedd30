// SPDX-License-Identifier: Apache-2.0
#include "conversion/stated_model/layer_names.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

template <typename Words>
bool is_among(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 5> kLayerWords{"layers", "layer", "h", "blocks", "block"};

/// Layers that have the same parts.
struct Kind {
  std::vector<std::int64_t> layers{};
};
using Kinds = std::map<std::vector<ModulePart>, Kind>;

}  // namespace

std::optional<LayerOfName> layer_of(std::string_view name) {
  std::size_t begin = 0;
  std::string_view before;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view segment = name.substr(begin, end - begin);
    if (is_among(kLayerWords, before)) {
      if (const auto number = parse_number(segment)) {
        return LayerOfName{name.substr(0, begin - 1), *number,
                           name.substr(std::min(end + 1, name.size()))};
      }
    }
    before = segment;
    begin = end + 1;
  }
  return std::nullopt;
}

bool is_of_other_part(std::string_view name) {
  constexpr std::array<std::string_view, 15> kWords{
      "vision", "visual", "audio",     "image",     "speech", "video",     "mtp",   "nextn",
      "draft",  "medusa", "projector", "connector", "eagle",  "resampler", "talker"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

std::optional<ModulePart> module_part(std::string_view rest) {
  constexpr std::array<std::string_view, 4> kWeights{"weight", "qweight", "weight_packed", "W_q"};
  const std::size_t dot = rest.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view last = rest.substr(dot + 1);
  if (last == "bias") return ModulePart{rest.substr(0, dot), true};
  if (!is_among(kWeights, last)) return std::nullopt;
  return ModulePart{rest.substr(0, dot), false};
}

std::vector<std::int64_t> LayerStack::lacking(std::int64_t count) const {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!layers_.contains(i)) numbers.push_back(i);
  }
  return numbers;
}

std::vector<std::int64_t> LayerStack::gaps() const {
  constexpr std::int64_t kMost = 100'000;
  std::vector<std::int64_t> numbers;
  for (auto layer = layers_.begin(); layer != layers_.end(); ++layer) {
    const auto next = std::next(layer);
    if (next == layers_.end() || next->first - layer->first > kMost) continue;
    for (std::int64_t i = layer->first + 1; i < next->first; ++i) numbers.push_back(i);
  }
  return numbers;
}

std::vector<LayerStack::Uneven> LayerStack::uneven(const std::vector<std::string>& kinds,
                                                   bool has_biases) const {
  std::map<std::string_view, Kinds> all;
  for (const auto& [number, names] : layers_) {
    std::vector<ModulePart> parts;
    for (const std::string_view rest : names) {
      const auto part = module_part(rest);
      if (part && (has_biases || !part->second)) parts.push_back(*part);
    }
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    const auto at = static_cast<std::size_t>(number);
    const std::string_view kind = at < kinds.size() ? kinds[at] : std::string_view();
    all[kind][std::move(parts)].layers.push_back(number);
  }
  std::vector<Uneven> found;
  for (const auto& [kind, of_kind] : all) {
    for (const auto& [parts, own] : of_kind) {
      const Kinds::value_type* most = nullptr;
      for (const Kinds::value_type& other : of_kind) {
        const bool has_more =
            other.first.size() > parts.size() && other.second.layers.size() >= own.layers.size() &&
            std::includes(other.first.begin(), other.first.end(), parts.begin(), parts.end());
        if (has_more &&
            (most == nullptr || other.second.layers.size() > most->second.layers.size()))
          most = &other;
      }
      if (most == nullptr) continue;
      const std::int64_t like = most->second.layers.front();
      for (const std::int64_t number : own.layers) {
        Uneven& one = found.emplace_back(
            Uneven{number, like, most->second.layers.size() > own.layers.size(), {}});
        for (const std::string_view rest : layers_.at(like)) {
          const auto part = module_part(rest);
          if (part && (has_biases || !part->second) &&
              !std::binary_search(parts.begin(), parts.end(), *part)) {
            one.rest.push_back(rest);
          }
        }
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Uneven& a, const Uneven& b) { return a.number < b.number; });
  return found;
}

namespace {

/// Sources: the modeling_*.py of transformers 4.57 and 5.24, and the networks of MindFormers.
constexpr std::array kRules = {
    LayerRule{" llama mistral ministral ministral3 mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma "
              "gemma2 gemma3_text granite smollm3 seed_oss starcoder2 olmo cohere cohere2 exaone4 "
              "ernie4_5 internlm3 ",
              "layers", true, true, true},
    LayerRule{" deepseek_v2 deepseek_v3 deepseek_vl_v2 gemma3 glm glm4 glm4_moe glm4_moe_lite "
              "gpt_oss internlm2 baichuan minimax_m2 mistral3 mistral4 nemotron olmo2 olmo3 olmoe "
              "phi phi3 phimoe granitemoe stablelm hunyuan_v1_dense hunyuan_v1_moe ernie4_5_moe "
              "exaone_moe qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe telechat3 pangu ",
              "layers", true, false, true},
    LayerRule{" deepseek_v32 glm4v_moe glm_moe_dsa gemma3n gemma3n_text gemma4 gemma4_text jamba "
              "bamba kimi_k25 kimi_linear lfm2 lfm2_moe llama4 llama4_text mimo_v2_flash minimax "
              "nemotron_h granitemoehybrid qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe "
              "qwen3_5_moe_text bailing_moe olmo_hybrid falcon_h1 ",
              "layers", true, false, false},
    LayerRule{" deepseek_v4 mamba mamba2 falcon_mamba hy_v3 llava llava_next mllama step3p7 ",
              "layers", false, false, false},
    LayerRule{" gpt_neox opt biogpt chatglm ", "layers", false, false, true},
    LayerRule{" gpt2 gpt_bigcode gptj gpt_neo bloom falcon telechat telechat2 ", "h", false, false,
              true},
    LayerRule{" bert roberta xlm-roberta camembert electra deberta-v2 distilbert ", "layer", false,
              false, true},
};

constexpr LayerRule kUntyped{"", "layers", true, true, true};

}  // namespace

const LayerRule* layer_rule(std::string_view model_type) {
  if (model_type.empty() || model_type.find(' ') != std::string_view::npos) return nullptr;
  const std::string word = " " + std::string(model_type) + " ";
  for (const LayerRule& rule : kRules) {
    if (rule.types.find(word) != std::string_view::npos) return &rule;
  }
  return nullptr;
}

const LayerRule& untyped_layer_rule() {
  return kUntyped;
}

std::string layers_words(const std::vector<std::int64_t>& numbers) {
  if (numbers.size() == 1) return "layer " + std::to_string(numbers.front());
  if (numbers.size() == 2) {
    return "layers " + std::to_string(numbers[0]) + " and " + std::to_string(numbers[1]);
  }
  std::string text = "layers ";
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i > 1) text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace reshardfs
