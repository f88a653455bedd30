// SPDX-License-Identifier: Apache-2.0
#include "view/megatron/core_names.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using Layers = CoreName::Layers;

void expect(const char* name, Layers layers, std::size_t axes, const char* module) {
  SCOPED_TRACE(name);
  const CoreName core = parse_core_name(name);
  EXPECT_EQ(core.layers, layers);
  EXPECT_EQ(core.leading_axes(), axes);
  EXPECT_EQ(core.module, module);
}

TEST(CoreNames, TellLayersAndExperts) {
  expect("decoder.layers.self_attention.linear_qkv.layer_norm_weight", Layers::kStacked, 1,
         "decoder.layers.self_attention.linear_qkv");
  expect("decoder.layers.12.mlp.linear_fc2.weight", Layers::kNumbered, 0,
         "decoder.layers.12.mlp.linear_fc2");
  expect("decoder.layers.mlp.experts.experts.linear_fc1.weight", Layers::kStacked, 2,
         "decoder.layers.mlp.experts.experts.linear_fc1");
  expect("decoder.layers.3.mlp.experts.experts.linear_fc1.bias", Layers::kNumbered, 1,
         "decoder.layers.3.mlp.experts.experts.linear_fc1");
  expect("decoder.layers.mlp.shared_experts.linear_fc1.weight", Layers::kStacked, 1,
         "decoder.layers.mlp.shared_experts.linear_fc1");
}

TEST(CoreNames, TellWhatIsOutsideOfTheLayers) {
  expect("embedding.word_embeddings.weight", Layers::kNone, 0, "");
  expect("output_layer.weight", Layers::kNone, 0, "");
  expect("decoder.final_layernorm.weight", Layers::kNone, 0, "decoder.final_layernorm");
  expect("mtp.layers.0.transformer_layer.mlp.experts.experts.linear_fc2.weight", Layers::kNone, 1,
         "mtp.layers.0.transformer_layer.mlp.experts.experts.linear_fc2");
}

}  // namespace
}  // namespace reshardfs
