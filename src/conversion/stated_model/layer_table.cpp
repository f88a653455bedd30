// SPDX-License-Identifier: Apache-2.0
#include "conversion/stated_model/layer_table.h"

#include <array>
#include <string>

namespace reshardfs {
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

}  // namespace reshardfs
