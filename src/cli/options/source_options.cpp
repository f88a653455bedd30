// SPDX-License-Identifier: Apache-2.0
#include "cli/options/groups.h"
#include "conversion/option_words.h"

namespace reshardfs {
namespace {

using namespace commands;

/// All that read a set, and all that lay out its parameters.
constexpr Commands kLaidOut =
    kConversions | kVerify | kInspect | kMapCheck | kMapShow | kStrategyConvert;
constexpr Commands kSources = kLaidOut | kStrategyCheck | kStrategyGuess;
constexpr Commands kStrategies = kStrategyShow | kStrategyMerge;

std::vector<Option> strategy_rows() {
  return {
      {.name = "src-strategy",
       .takes = Takes::kText,
       .type = "FILE|DIR|SIZES|none",
       .help = "Strategy the checkpoint was saved with: a MindSpore .ckpt or .json file, a "
               "directory with one such file per pipeline stage, rules in a .toml file, or sizes "
               "such as 'tp=4,pp=2' that shapes prove; none if every rank holds whole parameters",
       .commands = kLaidOut & ~kInspect},
      {.name = "src-strategy",
       .takes = Takes::kText,
       .type = "FILE|DIR|SIZES|none",
       .help = "Strategy the checkpoint was saved with, as for mount: sizes are then those of "
               "whole parameters",
       .commands = kInspect},
      {.name = "src-strategy",
       .takes = Takes::kText,
       .type = "FILE|DIR|SIZES|none",
       .help = "With --map: strategy the checkpoint was saved with",
       .commands = kStrategyCheck},
      {.name = "src-join",
       .takes = Takes::kTexts,
       .type = "GLOB",
       .help = "Without a source strategy: join the slices of matching parameters along dimension "
               "0, in rank order (repeatable)",
       .commands = kLaidOut},
  };
}

std::vector<Option> place_rows() {
  return {
      {.name = "src-pattern",
       .takes = Takes::kText,
       .type = "PATTERN",
       .help = "Where the source files are, e.g. 'rank_{rank}/*-{step}.ckpt'; by default, "
               "directories rank_N, nodeN and ckpt_N and files *_rank_N* are found",
       .commands = kSources},
      {.name = "src-prefix",
       .takes = Takes::kText,
       .type = "PREFIX",
       .help = "Which of several runs or models in one directory to read: what the names of its "
               "files begin with, as inspect lists it",
       .commands = kSources | kStrategies},
      {.name = "state-key",
       .takes = Takes::kText,
       .type = "KEY",
       .help = "Read only what is under this key, and drop the key from the names, e.g. 'model' or "
               "'state_dict' of a file of torch.save, or 'module' in front of all names",
       .commands = kSources},
      {.name = "step",
       .takes = Takes::kText,
       .type = "STEP|latest|all",
       .help = "The step to show, as inspect lists it (e.g. 9_50); all for each step in steps/ and "
               "the newest in latest/, including steps saved later",
       .fallback = "latest",
       .commands = kMount},
      {.name = "step",
       .takes = Takes::kText,
       .type = "STEP|latest",
       .help = "The step to read, as inspect lists it (e.g. 9_50)",
       .fallback = "latest",
       .commands = kSources & ~kMount},
  };
}

std::vector<Option> reading_rows() {
  return {
      {.name = "dequantize",
       .help =
           "Show quantized weights (FP8, MXFP4, NVFP4, INT1 to INT8, AWQ, GPTQ) as BFloat16, and "
           "leave their scales out",
       .commands = kSources},
      {.name = "quantize",
       .takes = Takes::kText,
       .type = "nvfp4",
       .help =
           "Show weights in MXFP4 as NVFP4, without loss: codes stay, and scales change; weights "
           "in another form are refused",
       .choices = {"nvfp4"},
       .commands = kSources},
      {.name = "rename",
       .takes = Takes::kTexts,
       .type = "OLD=NEW",
       .help = "Give the tensors that match OLD another name, before maps, --include and --exclude "
               "see it; patterns are those of model maps, and '*' at an end of both stands for any "
               "text (repeatable, in this order)",
       .commands = kLaidOut | kStrategyCheck},
      {.name = "drop",
       .takes = Takes::kTexts,
       .type = "PATTERN",
       .help = "Leave out the tensors that match, by their names after --rename (repeatable)",
       .commands = kLaidOut | kStrategyCheck},
      {.name = "replicas",
       .takes = Takes::kText,
       .type = "same|first|own",
       .help = "Where source ranks that should hold the same data differ: fail, take the lowest "
               "rank's copy, or give each target rank the copy of the source rank with its number",
       .fallback = "same",
       .choices = all_words(kReplicasWords),
       .commands = kLaidOut & ~kVerify},
      {.name = "replicas",
       .takes = Takes::kText,
       .type = "same|first|own",
       .help = "Require equal replicas, or accept different ones, as for mount",
       .fallback = "same",
       .choices = all_words(kReplicasWords),
       .commands = kVerify},
      {.name = "state-prefix",
       .takes = Takes::kTexts,
       .type = "PREFIX",
       .help =
           "Prefix of optimizer states: PREFIX plus a weight's name is cut like that weight unless "
           "the strategy lists it (repeatable; adam_m., adam_v., moments. and others are built in)",
       .commands = kLaidOut},
      {.name = "check-crc",
       .help = "Check the CRCs of the source files before anything else",
       .commands = (kSources & ~kVerify) | kDiff},
      {.name = "check-crc",
       .help = "Check the CRCs before anything else; verify checks them in any case",
       .commands = kVerify},
      {.name = "no-symlinks",
       .help = "Refuse symbolic links below the source",
       .commands = kSources},
      {.name = "no-symlinks", .help = "Refuse symbolic links below A and B", .commands = kDiff},
      {.name = "dec-key-file",
       .takes = Takes::kText,
       .type = "FILE",
       .help = "File with the key of encrypted .ckpt files, in raw bytes or hexadecimal digits",
       .commands = kSources},
      {.name = "dec-mode",
       .takes = Takes::kText,
       .type = "AES-GCM|AES-CBC|SM4-CBC",
       .help = "Encryption mode of encrypted .ckpt files",
       .fallback = "AES-GCM",
       .choices = {"AES-GCM", "AES-CBC", "SM4-CBC"},
       .commands = kSources},
  };
}

}  // namespace

std::vector<Option> source_group() {
  std::vector<Option> rows = strategy_rows();
  for (auto&& more : {place_rows(), reading_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace reshardfs
