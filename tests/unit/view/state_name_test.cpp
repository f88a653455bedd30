// SPDX-License-Identifier: Apache-2.0
#include "view/hyper/state_name.h"

#include <string>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

/// "exp_avg of layers.0.w"; empty: it is none.
std::string read(const std::string& name, bool is_mapped = false) {
  const auto state = parse_state_name(name, is_mapped);
  if (!state) return {};
  return (state->state.empty() ? "float32" : state->state) + " of " + state->weight;
}

TEST(StateName, KnowsEachProgramsForms) {
  for (const char* first : {"adam_m.", "moment1.", "exp_avg.", "optimizer.state.exp_avg."}) {
    EXPECT_EQ(read(std::string(first) + "layers.0.w"), "exp_avg of layers.0.w") << first;
  }
  for (const char* second : {"adam_v.", "moment2.", "exp_avg_sq.", "optimizer.state.exp_avg_sq."}) {
    EXPECT_EQ(read(std::string(second) + "layers.0.w"), "exp_avg_sq of layers.0.w") << second;
  }
  for (const char* main : {"optimizer.state.param.", "optimizer.state.fp32_param.",
                           "optimizer._mixed_precision_optimizer.fp32_from_fp16_params."}) {
    EXPECT_EQ(read(std::string(main) + "layers.0.w"), "float32 of layers.0.w") << main;
  }
  EXPECT_EQ(read("optimizer.state.layers.0.w.exp_avg"), "exp_avg of layers.0.w");
  EXPECT_EQ(read("optim.state.w.step"), "step of w");
  EXPECT_EQ(read("state.layers.0.w.momentum_buffer"), "momentum_buffer of layers.0.w");
}

TEST(StateName, AWeightMayBeCalledParamUnlessAMapSaysOtherwise) {
  for (const char* prefix : {"param.", "fp32_param."}) {
    EXPECT_EQ(read(std::string(prefix) + "w"), "");
    EXPECT_EQ(read(std::string(prefix) + "w", true), "float32 of w");
  }
}

TEST(StateName, IsNothingForOthers) {
  for (const char* name : {"", "global_step", "adam_m.", "accu_grads.w", "moments.w", "state.w",
                           "optimizer.state.exp_avg", "optim.state.w.", "understate.w.exp_avg",
                           "optimizer.param_groups.0.lr", "state..exp_avg"}) {
    EXPECT_EQ(read(name), "") << name;
  }
}

}  // namespace
}  // namespace reshardfs
