// SPDX-License-Identifier: Apache-2.0
#include "cli/options/groups.h"
#include "cli/options/value_checks.h"
#include "conversion/option_words.h"

namespace reshardfs {
namespace {

using namespace commands;

constexpr Commands kSets = kConversions | kVerify | kInspect;

std::vector<Option> view_rows() {
  const auto views = [](std::string help, Commands commands) {
    return Option{.name = "views",
                  .takes = Takes::kList,
                  .type = "LIST",
                  .help = std::move(help),
                  .choices = all_words(kViewWords),
                  .commands = commands};
  };
  return {
      views(
          "Views to show, separated by commas; by default, all but iteration, dcp, dcp-hf, "
          "megatron, hyper and vllm, merged-torch only with --format torch, and hf only with "
          "Hugging Face's names, beside a config.json or shown by a map. merged stands for "
          "merged-ckpt, "
          "merged-safetensors and hub, or with --format for the single files of these formats; "
          "hub is model-*.safetensors; params is NumPy files; hf is for transformers and vLLM; "
          "unified is for MindSpore's load_distributed_checkpoint; iteration is Checkpoint 2.0; "
          "dcp is for PyTorch's torch.distributed.checkpoint, dcp-hf for its Hugging Face reader; "
          "megatron is a checkpoint from which a run of Megatron-Core starts, hyper one from which "
          "HyperParallel's Trainer starts or goes on; vllm is for vLLM's sharded_state loader",
          kConversions & ~(kExport | kHash)),
      views(
          "Views to write, separated by commas; by default, ranks, and with --format ckpt the "
          "strategy that sizes or rules stand for. merged stands for merged-ckpt, "
          "merged-safetensors and hub, or with --format for the single files of these formats; hub "
          "is model-*.safetensors; params is NumPy files; hf is for transformers and vLLM; unified "
          "is for MindSpore's load_distributed_checkpoint; iteration is Checkpoint 2.0; dcp is for "
          "PyTorch's torch.distributed.checkpoint, dcp-hf for its Hugging Face reader; megatron is "
          "a checkpoint from which a run of Megatron-Core starts, hyper one from which "
          "HyperParallel's Trainer starts or goes on; vllm is for vLLM's sharded_state loader",
          kExport),
      views("Without FILE: views to hash, as for mount; by default, ranks", kHash),
      {.name = "format",
       .takes = Takes::kList,
       .type = "LIST",
       .help =
           "Formats of the rank files, separated by commas; by default, the source's format; torch "
           "is .pt",
       .choices = all_words(kFormatWords),
       .commands = kConversions},
  };
}

std::vector<Option> choice_rows() {
  return {
      {.name = "include",
       .takes = Takes::kTexts,
       .type = "GLOB",
       .help = "Keep only parameters that match this pattern (repeatable)",
       .commands = kSets | kDiff},
      {.name = "exclude",
       .takes = Takes::kTexts,
       .type = "GLOB",
       .help = "Leave out parameters that match this pattern (repeatable)",
       .commands = kSets | kDiff},
      {.name = "weights-only",
       .help = "Leave out the states of optimizers, schedulers and the training loop, which are "
               "recognized by their names",
       .commands = kSets | kDiff},
      {.name = "partial",
       .help = "Accept a source that lacks layers or tensors, or does not fit the sizes of its "
               "config.json, with a warning",
       .commands = kConversions},
      {.name = "allow-unmatched",
       .help = "Accept options that select nothing of this checkpoint, with a warning, as in "
               "scripts for many checkpoints",
       .commands = kSets | kDiff | kStrategyConvert},
      {.name = "cast",
       .takes = Takes::kTexts,
       .type = "RULE",
       .help = "Convert element types: [GLOB:]FROM->TO, in quotes, e.g. 'fp32->bf16' or "
               "'*.weight:fp32->fp16' (repeatable; the first match applies)",
       .check = check_cast_quotes,
       .commands = kConversions},
  };
}

std::vector<Option> file_rows() {
  return {
      {.name = "params",
       .help = "Also show each array of a rank as a NumPy file, in rank_N/params",
       .commands = kConversions},
      {.name = "prefix",
       .takes = Takes::kText,
       .type = "NAME",
       .help = "Prefix of the rank files' names: rank_N/PREFIXN.ckpt",
       .fallback = "checkpoint_",
       .commands = kConversions},
      {.name = "shard-size",
       .takes = Takes::kSize,
       .type = "SIZE",
       .help = "Maximum size of each model-*.safetensors shard, and of each file of hyper, e.g. "
               "500MB, 2GB or 5GiB",
       .fallback = "5GB",
       .thousands = true,
       .commands = kConversions},
      {.name = "dcp-shards",
       .takes = Takes::kNumber,
       .type = "N",
       .help = "Spread the whole model evenly over N files in dcp, dcp-hf and megatron; by "
               "default, they have a file for each target rank",
       .least = 1,
       .most = kMostDcpShards,
       .commands = kConversions},
      {.name = "dcp-release",
       .takes = Takes::kText,
       .type = "2|1.13",
       .help = "Release of PyTorch that loads dcp: 2 stands for 2.0 and later",
       .fallback = "2",
       .choices = all_words(kTorchReleaseWords),
       .commands = kConversions},
      {.name = "iteration-release",
       .takes = Takes::kText,
       .type = "2.0|2.1",
       .help =
           "Release of MindSpore Transformers whose bytes iteration has; all releases load both",
       .fallback = "2.0",
       .choices = all_words(kIterationReleaseWords),
       .commands = kConversions},
      {.name = "metadata",
       .takes = Takes::kText,
       .type = "ms|pt",
       .help = "Framework recorded in the safetensors metadata: MindSpore or PyTorch",
       .fallback = "ms",
       .choices = {"ms", "pt"},
       .commands = kConversions},
      {.name = "align",
       .takes = Takes::kNumber,
       .type = "BYTES",
       .help =
           "Alignment of the tensor data in safetensors files; by default, 8 in files that equal "
           "MindSpore's own byte for byte (ranks, unified, iteration), 4096 in all others",
       .choices = {"8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096"},
       .commands = kConversions},
      {.name = "crc",
       .help = "Append MindSpore's CRC trailer to .ckpt files, and put checksums into .pt files",
       .commands = kConversions},
  };
}

}  // namespace

std::vector<Option> target_group() {
  return {
      {.name = "dst-strategy",
       .takes = Takes::kText,
       .type = "FILE|DIR|SIZES|none",
       .help = "Strategy to show the checkpoint under: a file or directory as for --src-strategy, "
               "or sizes such as 'tp=8,pp=2' to derive one from the source strategy or the model's "
               "family; none for one rank that holds everything",
       .fallback = "none",
       .commands = kConversions},
      {.name = "stage-layers",
       .takes = Takes::kText,
       .type = "LIST",
       .help = "How many layers each pipeline stage has, for sizes such as 'tp=2,pp=4' as target: "
               "10,9,9,8; by default, layers are spread evenly",
       .needs = {"dst-strategy"},
       .commands = kConversions},
      {.name = "stage-layers",
       .takes = Takes::kText,
       .type = "LIST",
       .help = "With sizes such as 'tp=2,pp=4': how many layers each pipeline stage has: 10,9,9,8; "
               "by default, layers are spread evenly",
       .needs = {"source"},
       .commands = kStrategyConvert},
      {.name = "ranks",
       .takes = Takes::kText,
       .type = "LIST",
       .help = "Show only these target ranks, e.g. 0-3,7",
       .commands = kConversions},
      {.name = "unmatched",
       .takes = Takes::kText,
       .type = "drop|source|replicate|error",
       .help = "Parameters that only one of the two strategies lists: drop them, copy the source "
               "rank's slice, replicate the full tensor on every rank, or fail",
       .fallback = "drop",
       .choices = all_words(kUnmatchedWords),
       .commands = kConversions},
  };
}

std::vector<Option> map_group() {
  constexpr Commands kMaps = kSets | kStrategyCheck | kStrategyConvert;
  constexpr Commands kVariables = kMaps | kMapCheck | kMapShow;
  return {
      {.name = "map",
       .takes = Takes::kTexts,
       .type = "NAME|FILE.toml|auto",
       .help =
           "Show the tensors with the names and fusions of another model family: an installed map "
           "(see 'reshardfs map list'), a .toml file of rules, or auto, which picks the map that "
           "fits the names and the model_type, and fails if none or several do (repeatable; each "
           "map reads what the "
           "previous one shows)",
       .commands = kMaps},
      {.name = "map-direction",
       .takes = Takes::kTexts,
       .type = "forward|inverse|auto",
       .help = "Direction of the map, once per --map; auto, the default, follows the source's "
               "tensor names",
       .choices = all_words(kMapDirectionWords),
       .commands = kVariables},
      {.name = "model-config",
       .takes = Takes::kText,
       .type = "DIR|FILE",
       .help = "The model's config.json, which gives maps their sizes and is compared with the "
               "tensors, or its directory, whose tokenizer and related files then also appear in "
               "hf/; by default, the source's own config.json",
       .commands = kConversions},
      {.name = "model-config",
       .takes = Takes::kText,
       .type = "DIR|FILE",
       .help = "The model's config.json, which gives maps their sizes and is compared with the "
               "tensors, or its directory; by default, the source's own config.json",
       .commands = kVariables & ~kConversions},
      {.name = "model-config",
       .takes = Takes::kText,
       .type = "DIR|FILE",
       .help = "The model's config.json, which gives full shapes, or its directory",
       .commands = kStrategyGuess},
      {.name = "training-config",
       .takes = Takes::kText,
       .type = "FILE.yaml",
       .help = "The YAML file of the training job whose checkpoint the map reads or makes: it "
               "states the layouts that no shape shows; by default, YAML files beside the source "
               "that set them; the numbers of the model in it (num_layers and others) are compared "
               "with the tensors",
       .commands = kVariables},
      {.name = "map-var",
       .takes = Takes::kTexts,
       .type = "NAME=VALUE",
       .help = "Set a variable of a map, e.g. interleaved=0, or the release of the framework that "
               "trains, e.g. release=1.7 (repeatable); --views hyper asks for trainer_step, "
               "trainer_epoch and trainer_param_groups",
       .commands = kVariables},
      {.name = "name-map",
       .takes = Takes::kText,
       .type = "FILE.json",
       .help = "Rename parameters, by a JSON object of old to new names; to rename by pattern, "
               "write a map: see reshardfs-map(5)",
       .commands = kConversions},
      {.name = "name-map",
       .takes = Takes::kText,
       .type = "FILE.json",
       .help = "A JSON object of names in A to names in B",
       .commands = kDiff},
  };
}

std::vector<Option> shown_group() {
  std::vector<Option> rows = view_rows();
  for (auto&& more : {choice_rows(), file_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace reshardfs
