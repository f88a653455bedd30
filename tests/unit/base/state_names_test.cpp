// SPDX-License-Identifier: Apache-2.0
#include "base/text/state_names.h"

#include <gtest/gtest.h>

#include "base/text/glob.h"

namespace reshardfs {
namespace {

TEST(StateNames, StatesAreToldFromWeights) {
  for (const char* state :
       {"adam_m.model.wq.weight", "moments.w", "exp_avg_sq.w", "global_step", "learning_rate",
        "optim.state.model.layers.0.wq.weight.exp_avg", "optim.param_groups.w.lr",
        "optimizer.state.exp_avg.decoder.layers.mlp.linear_fc1.weight",
        "optimizer.state.fp32_param.embedding.word_embeddings.weight",
        "optimizer.distributed.dp_group_idx_0.gbuf_idx_0.dtype_(torch.bfloat16, "
        "torch.float32).bucket_idx_0.exp_avg",
        "chained_0.optimizer.state.exp_avg.w", "app.optim.state.w.step", "state.w.momentum_buffer",
        "my_states.state.layer.weight.exp_avg", "lr_scheduler.last_epoch", "train_state.ntokens",
        "rng_state.cuda", "step"}) {
    EXPECT_TRUE(is_training_state(state)) << state;
  }
}

TEST(StateNames, WeightsAreNoStates) {
  for (const char* weight :
       {"model.layers.0.attention.wq.weight", "embedding.word_embeddings.weight", "w", "", "optim",
        "optimizer_free.weight", "model.optimizer_head.weight", "opt.decoder.weight",
        "model.state_proj.weight", "state.weight", "mamba.state.out_proj.weight", "model.step",
        "decoder.layers.mlp.linear_fc1.weight", "momentum_encoder.w", "exp_avg", "state.exp_avg"}) {
    EXPECT_FALSE(is_training_state(weight)) << weight;
  }
}

TEST(StateNames, PrefixesAreAddedTo) {
  EXPECT_FALSE(is_training_state("muon_m.w"));
  EXPECT_TRUE(is_training_state("muon_m.w", {"muon_m."}));
  EXPECT_FALSE(is_training_state("w", {""}));
}

TEST(StateNames, TheFilterTakesWeightsAlone) {
  const NameFilter filter{{"*w*"}, {"*bad*"}, true, {"mine."}};
  EXPECT_TRUE(filter.takes("w"));
  EXPECT_FALSE(filter.takes("adam_m.w"));
  EXPECT_FALSE(filter.takes("mine.w"));
  EXPECT_FALSE(filter.takes("w.bad"));
}

}  // namespace
}  // namespace reshardfs
