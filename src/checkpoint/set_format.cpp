// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/set_format.h"

#include <array>

#include "checkpoint/dcp/dcp_set.h"
#include "checkpoint/dcp/hyper_steps.h"
#include "checkpoint/deepspeed/universal_set.h"
#include "checkpoint/deepspeed/zero_set.h"
#include "checkpoint/items/item_set.h"
#include "checkpoint/iteration/iteration_set.h"
#include "checkpoint/megatron/rank_set.h"
#include "checkpoint/series/series.h"
#include "checkpoint/series/step_sets.h"
#include "checkpoint/shards/shard_set.h"
#include "checkpoint/source_links.h"
#include "checkpoint/torch/fsdp_set.h"
#include "checkpoint/torch/meta_set.h"
#include "checkpoint/torch/torch_file.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

/// What `ask` gives for the first kind that knows the source.
template <typename Answer, typename Ask>
std::optional<Answer> first_answer(const std::filesystem::path& source,
                                   const CheckpointOptions& options, Ask&& ask) {
  if (!options.pattern.empty()) return std::nullopt;
  if (path_kind(source, options.listed) != PathKind::kDirectory) return std::nullopt;
  const SourceTreePtr tree = source_tree(source, options);
  for (const SetFormat& format : set_formats()) {
    if (std::optional<Answer> answer = ask(format, tree)) return answer;
  }
  return std::nullopt;
}

}  // namespace

std::span<const SetFormat> set_formats() {
  static constexpr std::array kFormats{
      SetFormat{discover_dcp,
                find_dcp_steps,
                "dcp",
                "a distributed checkpoint with a table .metadata, as PyTorch saves it",
                ".metadata, or __0.metadata and so on",
                true,
                {"*.distcp"}},
      SetFormat{discover_megatron_ranks,
                find_megatron_rank_steps,
                "megatron_ranks",
                "the files of all ranks with their parts of the model, as Megatron-LM saves them "
                "with torch.save",
                "iter_0000010/mp_rank_00/model_optim_rng.pt",
                true,
                {"mp_rank_*"}},
      SetFormat{discover_megatron,
                find_megatron_steps,
                "megatron",
                "steps of Megatron-Core, each a distributed checkpoint with a table .metadata",
                "latest_checkpointed_iteration.txt, iter_0000010/.metadata",
                true,
                {"*.distcp"}},
      SetFormat{discover_shards, find_shard_steps, "dcp_shards",
                "safetensors with shards of each tensor, as PyTorch's distributed checkpoint "
                "saves them",
                "shard-00001-model-00001-of-00001.safetensors"},
      SetFormat{
          discover_fsdp,
          find_fsdp_steps,
          "torch_ranks",
          "the files of all ranks with their parts of the tensors, as FSDP trainers save them "
          "with torch.save",
          "model_world_size_2_rank_0.pt",
          true,
          {"model_world_size_*"}},
      SetFormat{discover_meta,
                find_meta_steps,
                "meta",
                "a release of Meta's Llama: a file of torch.save for each tensor-parallel rank",
                "consolidated.00.pth, params.json",
                true,
                {"consolidated.??.pth"}},
      SetFormat{discover_universal,
                find_universal_steps,
                "deepspeed_universal",
                "a universal checkpoint of DeepSpeed, with a file for each parameter and state",
                "latest_universal, global_step10_universal/zero/",
                false,
                {"*_model_states.pt", "zero"}},
      SetFormat{discover_deepspeed,
                find_deepspeed_steps,
                "deepspeed",
                "a checkpoint of DeepSpeed, with or without ZeRO",
                "latest, global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt",
                false,
                {"*_states.pt"}},
      SetFormat{discover_hyper_steps,
                find_hyper_steps,
                "hyper_steps",
                "steps of hyper-parallel's Trainer, each a checkpoint with a table .metadata",
                "latest_checkpoint_iteration.txt, global_step_10/.metadata",
                true,
                {"_rank*_.safetensors"}},
      SetFormat{discover_items,
                find_item_steps,
                "torch_items",
                "the files of all ranks for each item, as torch_checkpointing saves them",
                "metadata.pkl, model_0.pt",
                true,
                {"*_[0-9]*.pt"}},
      SetFormat{discover_step_sets, find_step_sets, "steps",
                "a directory with a checkpoint for each step",
                "checkpoint-10/, step-10/, epoch_0/ or global_step_10/"},
      SetFormat{discover_iterations,
                find_iteration_steps,
                "checkpoint_2",
                "Checkpoint 2.0 of MindSpore Transformers",
                "iteration_00000010/",
                true,
                {"*model-???????"
                 "-???????.safetensors",
                 "*opt-???????"
                 "-???????.safetensors"}},
      SetFormat{
          discover_inner_dcp,
          find_inner_dcp_steps,
          "dcp_inside",
          "a directory of accelerate, NeMo, verl or OLMo-core, with a distributed checkpoint of "
          "PyTorch in it",
          "pytorch_model_fsdp_0/.metadata, weights/.metadata, dist_ckpt/.metadata, "
          "model_and_optim/.metadata or model/.metadata",
          true,
          {"*.distcp"}},
  };
  return kFormats;
}

Error no_steps(const std::filesystem::path& directory) {
  return Error(ErrorKind::kUsage, "is one checkpoint, without steps")
      .in_file(directory.string())
      .hint("leave --step out, and name the directory of the step as the source");
}

std::optional<Discovery> discover_described_set(const std::filesystem::path& source,
                                                const CheckpointOptions& options) {
  auto found =
      first_answer<Discovery>(source, options, [&](const SetFormat& format, const auto& tree) {
        std::optional<Discovery> answer = format.discover(source, options, tree);
        if (!answer) return answer;
        if (answer->step_format == nullptr) answer->step_format = answer->format;
        answer->format = &format;
        if (!format.takes_state_key) {
          refuse_state_key(source, options);
          answer->takes_state_key = false;
        }
        return answer;
      });
  if (found && found->series.empty()) refuse_prefix(source, options, "a set that lists its files");
  return found;
}

std::optional<std::vector<StepInfo>> find_described_steps(const std::filesystem::path& source,
                                                          const CheckpointOptions& options) {
  return first_answer<std::vector<StepInfo>>(
      source, options,
      [&](const SetFormat& format, const auto& tree) { return format.find_steps(source, tree); });
}

}  // namespace reshardfs
