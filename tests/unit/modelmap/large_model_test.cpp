// SPDX-License-Identifier: Apache-2.0
/// A model of DeepSeek-V3's size, and what turning it round twice gives.
#include <sys/resource.h>

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"
#include "support/cpu_time.h"

namespace reshardfs::modelmap::testing {
namespace {

constexpr std::int64_t kLayers = 61;
constexpr std::int64_t kExperts = 256;

const char* const kConfig = R"({
  "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128,
  "num_hidden_layers": 61, "vocab_size": 129280, "intermediate_size": 18432,
  "tie_word_embeddings": false, "first_k_dense_replace": 3, "n_routed_experts": 256,
  "n_shared_experts": 1, "moe_intermediate_size": 2048, "num_nextn_predict_layers": 1,
  "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128
})";

class DeepSeek {
 public:
  std::vector<SourceTensor> tensors() {
    add("model.embed_tokens.weight", {129280, 7168});
    for (std::int64_t layer = 0; layer <= kLayers; ++layer) add_layer(layer);
    add("model.norm.weight", {7168});
    add("lm_head.weight", {129280, 7168});
    return std::move(tensors_);
  }

 private:
  void add(const std::string& name, const Shape& shape) {
    tensors_.push_back({name, DType::kBFloat16, shape});
  }

  void add_mlp(const std::string& prefix, std::int64_t rows) {
    add(prefix + "gate_proj.weight", {rows, 7168});
    add(prefix + "up_proj.weight", {rows, 7168});
    add(prefix + "down_proj.weight", {7168, rows});
  }

  void add_layer(std::int64_t layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::string attention = prefix + "self_attn.";
    add(prefix + "input_layernorm.weight", {7168});
    add(prefix + "post_attention_layernorm.weight", {7168});
    add(attention + "q_a_proj.weight", {1536, 7168});
    add(attention + "q_a_layernorm.weight", {1536});
    add(attention + "q_b_proj.weight", {128 * 192, 1536});
    add(attention + "kv_a_proj_with_mqa.weight", {576, 7168});
    add(attention + "kv_a_layernorm.weight", {512});
    add(attention + "kv_b_proj.weight", {128 * 256, 512});
    add(attention + "o_proj.weight", {7168, 128 * 128});
    if (layer < 3) return add_mlp(prefix + "mlp.", 18432);
    add(prefix + "mlp.gate.weight", {kExperts, 7168});
    add(prefix + "mlp.gate.e_score_correction_bias", {kExperts});
    add_mlp(prefix + "mlp.shared_experts.", 2048);
    for (std::int64_t expert = 0; expert < kExperts; ++expert) {
      add_mlp(prefix + "mlp.experts." + std::to_string(expert) + ".", 2048);
    }
    if (layer < kLayers) return;
    add(prefix + "enorm.weight", {7168});
    add(prefix + "hnorm.weight", {7168});
    add(prefix + "eh_proj.weight", {7168, 2 * 7168});
    add(prefix + "shared_head.norm.weight", {7168});
    add(prefix + "embed_tokens.weight", {129280, 7168});
    add(prefix + "shared_head.head.weight", {129280, 7168});
  }

  std::vector<SourceTensor> tensors_{};
};

std::vector<SourceTensor> tensors_of(const Mapping& mapping) {
  std::vector<SourceTensor> tensors;
  for (const TargetTensor& target : mapping.targets) {
    tensors.push_back({target.name, target.dtype, target.shape()});
  }
  return tensors;
}

/// Name, type and shape.
std::set<std::string> listing(const std::vector<SourceTensor>& tensors) {
  std::set<std::string> lines;
  for (const SourceTensor& tensor : tensors) {
    lines.insert(tensor.name + ' ' + std::string(mindspore_name(tensor.dtype)) + ' ' +
                 to_string(tensor.shape));
  }
  return lines;
}

class LargeModel : public ::testing::TestWithParam<const char*> {
 protected:
  /// Prints what it took of the processor.
  Mapping mapped(const std::vector<SourceTensor>& tensors) const {
    const test::CpuTime taken;
    Mapping mapping = map_tensors(map_, tensors, options_);
    const double seconds = taken.seconds();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    RecordProperty("seconds", std::to_string(seconds));
    printf("%zu tensors -> %zu in %.2f s, at most %ld MiB\n", tensors.size(),
           mapping.targets.size(), seconds, usage.ru_maxrss / 1024);
    // Ten times what it takes on an idle machine.
    EXPECT_LT(seconds, 5.0);
    return mapping;
  }

  ModelMap map_ = installed_map(GetParam());
  MapOptions options_ = options_of(GetParam());

 private:
  static MapOptions options_of(const std::string& map) {
    MapOptions options;
    options.config = ModelConfig::parse(kConfig);
    options.release = Release::parse("1.7");
    if (map.ends_with("legacy")) {
      options.variables["grouped"] = 1;
    } else {
      options.variables["joined"] = 0;
    }
    return options;
  }
};

TEST_P(LargeModel, IsMappedInSecondsAndComesBack) {
  const std::vector<SourceTensor> tensors = DeepSeek().tensors();
  const Mapping there = mapped(tensors);
  EXPECT_EQ(there.direction, Direction::kForward);
  const Mapping back = mapped(tensors_of(there));
  EXPECT_EQ(back.direction, Direction::kInverse);
  EXPECT_EQ(listing(tensors_of(back)), listing(tensors));
}

TEST_P(LargeModel, SharesTheFormsOfTensorsThatAreMadeAlike) {
  const Mapping there = map_tensors(map_, DeepSeek().tensors(), options_);
  const auto forms_of = [](const Mapping& mapping) {
    std::set<const NormalForm*> forms;
    for (const TargetTensor& target : mapping.targets) forms.insert(target.form.get());
    return forms.size();
  };
  EXPECT_LT(forms_of(there), 60U);
  // Of each expert three, for layers and for the layer of multi-token prediction.
  EXPECT_LT(forms_of(map_tensors(map_, tensors_of(there), options_)), 7 * kExperts);
}

INSTANTIATE_TEST_SUITE_P(DeepSeek, LargeModel,
                         ::testing::Values("mindformers-deepseek-v3",
                                           "mindformers-deepseek-legacy"),
                         [](const auto& chosen) {
                           return std::string(chosen.param) == "mindformers-deepseek-v3" ? "mcore"
                                                                                         : "legacy";
                         });

}  // namespace
}  // namespace reshardfs::modelmap::testing
