// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/neighbours.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "checkpoint/series/step_sets.h"
#include "checkpoint/side_files.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::expect_error;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SideFiles, AreToldByTheirNames) {
  for (const char* const name :
       {"optimizer.bin", "optimizer.pt", "optimizer_1.bin", "optim_world_size_2_rank_0.pt",
        "optimizer-00001-of-00002.safetensors", "distrib_optim.pt", "optimizer_0",
        "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "optimizer_state.pt"}) {
    EXPECT_EQ(side_file(name), SideFile::kOptimizer) << name;
  }
  for (const char* const name :
       {"scheduler.bin", "scheduler_1.bin", "rng_state.pth", "rng_state_3.pth", "training_args.bin",
        "data.pt", "train_dataloader.pt", "dl_dataloader_0.bin", "random_states_0.pkl",
        "extra_state_world_size_2_rank_1.pt", "common.pt"}) {
    EXPECT_EQ(side_file(name), SideFile::kRunState) << name;
    EXPECT_TRUE(has_no_weights(name)) << name;
  }
  EXPECT_EQ(side_file("adapter_model.safetensors"), SideFile::kAdapter);
  EXPECT_FALSE(has_no_weights("adapter_model.bin"));
  for (const char* const name :
       {"model.safetensors", "pytorch_model.bin", "optimal.pt", "optimizer_of_models.pt",
        "data_model.pt", "common_voice.pt", "scheduled.pt", "data-00001-of-00002.safetensors"}) {
    EXPECT_EQ(side_file(name), SideFile::kNone) << name;
  }
}

TEST(StepFolders, HaveNumbersWithOrWithoutASeparator) {
  const auto step = [](const char* name) { return step_of_folder(name).value_or("none"); };
  EXPECT_EQ(step("checkpoint-500"), "500");
  EXPECT_EQ(step("step1000"), "1000");
  EXPECT_EQ(step("step_0010"), "10");
  EXPECT_EQ(step("epoch0"), "0");
  EXPECT_EQ(step("epoch_0_step_9"), "0_9");
  EXPECT_EQ(step("epoch=1-step=20"), "1_20");
  EXPECT_EQ(step("checkpoint_step_30"), "30");
  EXPECT_EQ(step("checkpoint-epoch-2"), "2");
  EXPECT_EQ(step("global_step_10"), "10");
  for (const char* const name : {"checkpoint", "steps10", "step", "step-", "step--1", "step_1_2",
                                 "epoch_0_9", "epoch_1_step", "checkpoint-500_tmp", "10"}) {
    EXPECT_EQ(step(name), "none") << name;
  }
}

class NeighboursTest : public testing::Test {
 protected:
  void add(std::initializer_list<const char*> names) const {
    for (const char* const name : names) dir_.write(name, test::small_record("w"));
  }
  std::vector<std::string> doubts(const CheckpointOptions& options = {}) const {
    return discover(dir_.path(), options).completeness.doubts;
  }

  test::TempDir dir_;
};

TEST_F(NeighboursTest, AreNotNamedWhereThereAreNone) {
  add({"model.safetensors", "config.json", "tokenizer.json", "scheduler.pt", "rng_state_0.pth",
       "training_args.bin", "original/consolidated.00.pth", "onnx/model.onnx", ".cache/x.ckpt"});
  EXPECT_THAT(doubts(), IsEmpty());
}

TEST_F(NeighboursTest, AreNamedByKind) {
  add({"model.safetensors", "optimizer.pt", "adapter_model.safetensors", "net.ckpt",
       "rank_0/net.bin", "checkpoint_network/x.txt", "iter_0000010_tmp/x", "tmp-checkpoint-500/x",
       "dcp/__0_0.distcp", "optimizer_0/__0_0.distcp", "mine/x.ckpt"});
  EXPECT_THAT(
      doubts(),
      ElementsAre("other checkpoints beside the model are not read: 'dcp/', 'net.ckpt', 'rank_0/'; "
                  "name one as the source to read it",
                  "states of the optimizer beside the model are not read: 'optimizer.pt', "
                  "'optimizer_0/'",
                  "an adapter beside the model is not read: 'adapter_model.safetensors'; merge it "
                  "with its model first, with merge_and_unload() of peft",
                  "saves that have not ended are not read: 'iter_0000010_tmp/', "
                  "'tmp-checkpoint-500/'"));
}

TEST(Neighbours, SavesThatHaveNotEndedAreNamedAsProgramsMarkThem) {
  const auto doubts_with = [](const std::string& name) {
    const test::TempDir dir;
    for (const std::string& file : {std::string("model.safetensors"), name + "/x"}) {
      dir.write(file, test::small_record("w"));
    }
    return discover(dir.path(), {}).completeness.doubts;
  };
  for (const char* name : {".step-300", "_tmp_step_300", "step_300.orbax-checkpoint-tmp-1",
                           "step-300.staging", "checkpoint-300.tmp"}) {
    EXPECT_THAT(doubts_with(name), ElementsAre("saves that have not ended are not read: '" +
                                               std::string(name) + "/'"));
  }
  for (const char* name : {".cache", ".git", "notes.staging"}) {
    EXPECT_THAT(doubts_with(name), IsEmpty());
  }
}

TEST_F(NeighboursTest, OfOneFormAreCounted) {
  add({"rank_0/a.ckpt", "rank_1/a.ckpt", "model-00001-of-00002.safetensors",
       "model-00002-of-00002.safetensors"});
  EXPECT_THAT(doubts(),
              ElementsAre(HasSubstr("'model-00001-of-00002.safetensors' and 1 like it; name")));
}

TEST_F(NeighboursTest, AreNotOtherRanksStepsAndRuns) {
  add({"a_rank_0-1_10.ckpt", "a_rank_0-1_20.ckpt", "a_rank_1-1_10.ckpt", "a_rank_1-1_20.ckpt",
       "a_rank_0-1_20_breakpoint.ckpt", "a_rank_1-1_20_breakpoint.ckpt"});
  EXPECT_THAT(doubts(), IsEmpty());
}

TEST_F(NeighboursTest, AreNotNamedToWhoeverHasChosen) {
  add({"rank_0/a.ckpt", "rank_1/a.ckpt", "net.ckpt"});
  EXPECT_THAT(doubts(), ElementsAre(HasSubstr("'net.ckpt'")));
  CheckpointOptions options;
  options.pattern = "rank_{rank}/*.ckpt";
  EXPECT_THAT(doubts(options), IsEmpty());
}

TEST_F(NeighboursTest, OfAStepAreNamedAsWell) {
  add({"checkpoint-500/model.safetensors", "checkpoint-1000/model.safetensors",
       "checkpoint-1000/optimizer.pt", "net.ckpt"});
  EXPECT_THAT(doubts(), ElementsAre(HasSubstr("'optimizer.pt'"), HasSubstr("'net.ckpt'")));
}

TEST_F(NeighboursTest, AreNoCheckpointWithoutWeights) {
  add({"optimizer.bin"});
  expect_error(ErrorKind::kMissing, {"has no weights, only 'optimizer.bin'"}, [&] { doubts(); });
  add({"unet/model.safetensors", "vae/model.safetensors"});
  expect_error(ErrorKind::kMissing, {"the models are below it, in 'unet', 'vae'"},
               [&] { doubts(); });
  add({"model.safetensors", "model_1.safetensors"});
  expect_error(ErrorKind::kMissing, {"'model.safetensors', 'model_1.safetensors'"},
               [&] { doubts(); });
}

TEST_F(NeighboursTest, MakeNoStepWithoutWeights) {
  add({"checkpoint-500/model.safetensors", "checkpoint-1000/optimizer.pt"});
  expect_error(ErrorKind::kBadInput,
               {"step 1000 has no checkpoint that can be read; available: "
                "500"},
               [&] { doubts(); });
}

TEST_F(NeighboursTest, ReplaceAnIndexWhoseFilesAreGone) {
  dir_.write("model.safetensors.index.json",
             R"({"weight_map": {"w": "model-00001-of-00002.safetensors"}})");
  add({"model.safetensors"});
  const Discovery found = discover(dir_.path(), {});
  EXPECT_EQ(found.files.front().path.filename(), "model.safetensors");
  EXPECT_THAT(found.warnings, ElementsAre(HasSubstr("model.safetensors.index.json is not used")));
}

}  // namespace
}  // namespace reshardfs
