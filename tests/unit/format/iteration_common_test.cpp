// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/iteration_common.h"

#include <string>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(IterationCommon, IsAsTheOriginalWritesIt) {
  EXPECT_EQ(common_json({{"step_num", std::int64_t{120}},
                         {"global_step", std::int64_t{120}},
                         {"loss_scale", 1.0},
                         {"epoch_num", std::int64_t{1}},
                         {"global_batch_size", std::int64_t{8}}}),
            R"({
    "epoch_num": 1,
    "step_num": 120,
    "global_step": 120,
    "loss_scale": 1.0,
    "global_batch_size": 8,
    "consumed_samples": null,
    "ckpt_status": null
})");
}

TEST(IterationCommon, HasNoOtherKeys) {
  EXPECT_EQ(common_json({{"learning_rate", 0.5}}).find("learning_rate"), std::string::npos);
  EXPECT_TRUE(is_common_json(common_json({})));
  EXPECT_TRUE(is_common_json(R"({"step_num": 3})"));
  EXPECT_TRUE(is_common_json(R"({"step_num": 3, "data_plan_state": {"a": [1]}})"));
  EXPECT_TRUE(is_common_json("{}"));
  for (const std::string text :
       {"", "[]", "3", "{", R"({"step_num": 3, "more": 1})", R"({"step_num": })"}) {
    EXPECT_FALSE(is_common_json(text)) << text;
  }
  EXPECT_FALSE(is_common_json(std::string(60'000, '[')));
}

}  // namespace
}  // namespace reshardfs
