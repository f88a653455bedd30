// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_names.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs::zero_names_tests {
namespace {

using test::expect_error;
using test::TempDir;

/// "o 3 0" or "m - 0": the kind, the rank of data parallelism and that of tensor parallelism.
std::string parsed(const std::string& name) {
  const auto found = parse_zero_name(name);
  if (!found) return "nothing";
  return std::string(found->optimizer ? "o " : "m ") +
         (found->data ? std::to_string(*found->data) : "-") + " " + std::to_string(found->model);
}

std::optional<ZeroStep> step_of(const std::vector<std::string>& names) {
  const TempDir dir;
  for (const std::string& name : names) dir.write(name, "x");
  return find_zero_files(dir.path(), nullptr);
}

/// Of a step without a pipeline.
std::optional<ZeroFiles> files_of(const std::vector<std::string>& names) {
  const auto step = step_of(names);
  if (!step) return std::nullopt;
  EXPECT_EQ(step->parts.size(), 1U);
  return step->parts.at(0);
}

void expect_no_step(const std::vector<std::string>& names, ErrorKind kind,
                    std::initializer_list<std::string> words) {
  SCOPED_TRACE(names.back());
  expect_error(kind, words, [&] { step_of(names); });
}

const std::string kModel = "mp_rank_00_model_states.pt";
const std::string kOptimizer = "zero_pp_rank_0_mp_rank_00_optim_states.pt";

TEST(ZeroNames, AreParsed) {
  EXPECT_EQ(parsed("mp_rank_00_model_states.pt"), "m - 0");
  EXPECT_EQ(parsed("mp_rank_03_model_states.pt"), "m - 3");
  EXPECT_EQ(parsed("zero_pp_rank_12_mp_rank_00_model_states.pt"), "m 12 0");
  EXPECT_EQ(parsed("zero_pp_rank_3_mp_rank_00_optim_states.pt"), "o 3 0");
  EXPECT_EQ(parsed("bf16_zero_pp_rank_3_mp_rank_01_optim_states.pt"), "o 3 1");
  EXPECT_EQ(parsed("fp16_zero_pp_rank_3_mp_rank_00_optim_states.pt"), "o 3 0");
}

TEST(ZeroNames, AreNoneOfOtherFiles) {
  for (const std::string name :
       {"", "latest", "model_states.pt", "mp_rank_00_model_states.pth", "mp_rank__model_states.pt",
        "mp_rank_0x_model_states.pt", "mp_rank_-1_model_states.pt",
        "mp_rank_00_optim_states.pt",  // whose rank of data parallelism is not told
        "zero_pp_rank_mp_rank_00_optim_states.pt", "zero_pp_rank_0mp_rank_00_optim_states.pt",
        "zero_pp_rank_0_mp_rank_00_optim_states.pt.tmp", "fp32_mp_rank_00_model_states.pt",
        "bf16_fp16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "zero_pp_rank_99999999999999999999_mp_rank_00_optim_states.pt",
        "mp_rank_99999999999999999999_model_states.pt", "a_mp_rank_00_model_states.pt"}) {
    EXPECT_EQ(parsed(name), "nothing") << name;
  }
}

TEST(ZeroFiles, AreThoseOfOneStep) {
  const auto files = files_of({kModel, kOptimizer, "zero_pp_rank_1_mp_rank_00_optim_states.pt",
                               "zero_pp_rank_10_mp_rank_00_optim_states.pt", "latest"});
  ASSERT_TRUE(files);
  EXPECT_EQ(files->model, (std::map<std::int64_t, std::string>{{0, kModel}}));
  EXPECT_EQ(files->optimizer, (std::map<std::int64_t, std::string>{
                                  {0, kOptimizer},
                                  {1, "zero_pp_rank_1_mp_rank_00_optim_states.pt"},
                                  {10, "zero_pp_rank_10_mp_rank_00_optim_states.pt"}}));
  EXPECT_FALSE(files->model_of_each_rank);
}

TEST(ZeroFiles, OfStage3HaveAModelForEachRank) {
  const auto files = files_of({"zero_pp_rank_0_mp_rank_00_model_states.pt",
                               "zero_pp_rank_1_mp_rank_00_model_states.pt", kOptimizer});
  ASSERT_TRUE(files);
  EXPECT_TRUE(files->model_of_each_rank);
  EXPECT_EQ(files->model.size(), 2U);
  EXPECT_EQ(files->model.at(1), "zero_pp_rank_1_mp_rank_00_model_states.pt");
}

TEST(ZeroFiles, AreNoneWhereOthersAre) {
  EXPECT_FALSE(files_of({"latest", "model.safetensors"}));
  // Files of these forms alone are of no step of ZeRO.
  EXPECT_FALSE(files_of({"layer_00-model_states.pt", "expp_rank_0_mp_rank_00_optim_states.pt"}));
  const TempDir dir;
  dir.make_directory(kModel);
  EXPECT_FALSE(find_zero_files(dir.path(), nullptr));
}

TEST(ZeroFiles, OfAPipelineAreThoseOfItsStagesAndLayers) {
  const auto step =
      step_of({kModel, kOptimizer, "mp_rank_01_model_states.pt", "layer_00-model_states.pt",
               "zero_pp_rank_0_mp_rank_01_optim_states.pt", "layer_10-model_00-model_states.pt",
               "layer_x-model_states.pt", "layer_01-model_states.pth"});
  ASSERT_TRUE(step);
  ASSERT_EQ(step->parts.size(), 2U);
  EXPECT_EQ(step->parts.at(1).model.at(0), "mp_rank_01_model_states.pt");
  EXPECT_EQ(step->parts.at(1).optimizer.at(0), "zero_pp_rank_0_mp_rank_01_optim_states.pt");
  EXPECT_EQ(step->layers,
            (std::map<std::int64_t, std::string>{{0, "layer_00-model_states.pt"},
                                                 {10, "layer_10-model_00-model_states.pt"}}));
}

TEST(ZeroFiles, OfExpertsAreFound) {
  const auto step = step_of({kModel, kOptimizer, "layer_0_expert_11_mp_rank_00_model_states.pt",
                             "layer_2_expert_1_mp_rank_00_model_states.pt",
                             "expp_rank_0_mp_rank_00_optim_states.pt"});
  ASSERT_TRUE(step);
  EXPECT_EQ(step->experts, (ZeroExperts{{{0, 11}, "layer_0_expert_11_mp_rank_00_model_states.pt"},
                                        {{2, 1}, "layer_2_expert_1_mp_rank_00_model_states.pt"}}));
  EXPECT_FALSE(step->has_other_experts);
  for (const char* name :
       {"expp_rank_0_mp_rank_00_optim_states.pt", "expert_0_mp_rank_00_model_states.pt",
        "layer_0_expert_1_mp_rank_01_model_states.pt"}) {
    EXPECT_TRUE(step_of({kModel, name})->has_other_experts) << name;
  }
}

TEST(ZeroFiles, OfOtherParallelismsAreRefused) {
  expect_no_step({kModel, "layer_00-model_01-model_states.pt"}, ErrorKind::kUnsupported,
                 {"tensor parallelism (layer_00-model_01-model_states.pt)", "ds_to_universal.py"});
}

TEST(ZeroFiles, OfTwoSavesAreRefused) {
  expect_no_step({kModel, kOptimizer, "bf16_" + kOptimizer}, ErrorKind::kBadInput,
                 {"two files of one rank", kOptimizer, "keep those of one save"});
  expect_no_step({kModel, "zero_pp_rank_0_mp_rank_00_model_states.pt"}, ErrorKind::kBadInput,
                 {"two files of one rank"});
}

}  // namespace
}  // namespace reshardfs::zero_names_tests
