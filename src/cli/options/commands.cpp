// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cli/options/table.h"

namespace reshardfs {
namespace {

using namespace commands;

constexpr const char* kCheckpoint = "A checkpoint, as for mount";
constexpr const char* kMountedPlace = "A mount point, or with --config a mount's name";

std::vector<Command> showing() {
  constexpr const char* kTitle = "Show a checkpoint";
  return {
      {"mount",
       kMount,
       kTitle,
       "Mount a checkpoint as another strategy's files, read-only",
       {{"SOURCE",
         "The checkpoint: a directory of rank directories or with a whole model, or a file", true},
        {"MOUNTPOINT", "An empty directory, or /dev/fd/N; not required with --fuse-socket", true,
         false, "fuse-socket"}},
       "-o takes mount options as mount(8) passes them: ro, allow_other, uid=, gid=, and every "
       "long option as key=value.\n\nExample:\n  reshardfs mount ckpt /mnt/tp4 --src-strategy "
       "train.ckpt --dst-strategy serve.ckpt\n  ls -l /mnt/tp4/rank_0\n  reshardfs umount "
       "/mnt/tp4\nExample: for two ranks, without a strategy file for them\n  reshardfs mount ckpt "
       "/mnt/tp2 --src-strategy train.ckpt --dst-strategy tp=2"},
      {"run",
       kRun,
       kTitle,
       "Mount a checkpoint, run a command, and unmount when it ends",
       {{"SOURCE", kCheckpoint, true},
        {"MOUNTPOINT", "An empty directory", true},
        {"COMMAND", "The program, and its arguments; -- may stand before it", true, true, "",
         true}},
       "Where this user may not mount, the mount is in namespaces of its own, which only the "
       "command sees.\n\nExample: for a job without root, where /dev/fuse can be opened\n  "
       "reshardfs run "
       "ckpt /mnt/tp4 --src-strategy train.ckpt --dst-strategy serve.ckpt -- \\\n    ls -l "
       "/mnt/tp4/rank_0"},
      {"umount",
       kUmount,
       kTitle,
       "Unmount a checkpoint",
       {{"MOUNTPOINT", kMountedPlace, true}},
       "Example:\n  reshardfs umount /mnt/tp4"},
      {"reload",
       kReload,
       kTitle,
       "Upgrade or reconfigure a mount while it is in use",
       {{"MOUNTPOINT", kMountedPlace, true}},
       "Example:\n  reshardfs reload /mnt/tp4\n  reshardfs reload --replace /mnt/tp4"},
      {"status",
       kStatus,
       kTitle,
       "List the mounts and their state",
       {{"MOUNTPOINT", "A single mount point; by default, all"}},
       "Exit status 1: a mount is dead, does not answer, or is not ready, or its source has "
       "changed.\n\nExample:\n  reshardfs status /mnt/tp4"},
      {"warm",
       kWarm,
       kTitle,
       "Read files of a mount into the page cache",
       {{"PATH", "A file or a directory of a mount", true, true}},
       "Example: read what rank 3 loads before its program starts\n  reshardfs warm "
       "/mnt/tp4/rank_3"},
      {"export",
       kExport,
       kTitle,
       "Write the files of a mount to disk or to an object store",
       {{"SOURCE", kCheckpoint, true},
        {"OUTDIR",
         "Target directory, created if missing, or s3://BUCKET/PREFIX; an interrupted export "
         "resumes. A name that ends in .safetensors or .ckpt: one file with the whole model",
         true}},
       "Example: write a checkpoint for 4-way tensor parallelism, and check it\n  reshardfs export "
       "ckpt out --src-strategy train.ckpt --dst-strategy tp=4 --checksum\n  (cd out && sha256sum "
       "-c SHA256SUMS)\n\nExample: let the tasks of a Slurm job write it together\n  srun "
       "reshardfs export ckpt out --src-strategy train.ckpt --dst-strategy tp=4 --share auto"},
      {"hash",
       kHash,
       kTitle,
       "Print SHA-256 sums of a mount's files, without mounting",
       {{"SOURCE", kCheckpoint, true},
        {"FILE", "Paths in the mount; by default, every file of the rank directories", false,
         true}},
       "Example: check an existing conversion\n  reshardfs hash ckpt --src-strategy train.ckpt "
       "--dst-strategy serve.ckpt > sums\n  (cd converted && sha256sum -c ../sums)"},
      {"cat",
       kCat,
       kTitle,
       "Print one file of a mount, or one parameter",
       {{"SOURCE", kCheckpoint, true}, {"FILE", "A path in the mount"}},
       "Example: save one parameter for NumPy\n  reshardfs cat ckpt --src-strategy train.ckpt "
       "--param lm_head.weight --npy > head.npy"},
  };
}

std::vector<Command> looking() {
  constexpr const char* kTitle = "Look into it";
  return {
      {"inspect",
       kInspect,
       kTitle,
       "Say what a checkpoint is and holds, and what to type next",
       {{"PATH", kCheckpoint, true}},
       "Example: look for NaN and Inf in the weights\n  reshardfs inspect ckpt --src-strategy "
       "train.ckpt --exclude 'adam_*' --stats --only-bad\nExample: show a hub model as MindFormers "
       "names it\n  reshardfs inspect hub-dir --map mindformers-qwen3 --training-config run.yaml "
       "--tree"},
      {"plan",
       kPlan,
       kTitle,
       "Show how much each target rank reads from which source ranks",
       {{"SOURCE", kCheckpoint, true}},
       "Example: list the source ranks whose files target rank 3 needs\n  reshardfs plan ckpt "
       "--src-strategy train.ckpt --dst-strategy serve.ckpt --rank 3\nExample: draw which rank "
       "reads from which\n  reshardfs plan ckpt --src-strategy train.ckpt --dst-strategy tp=8 "
       "--svg traffic.svg"},
      {"report",
       kReport,
       kTitle,
       "Write an HTML page with layouts, traffic and parameters",
       {{"SOURCE", kCheckpoint, true}},
       "Example: write a page to share with colleagues\n  reshardfs report ckpt --src-strategy "
       "train.ckpt --dst-strategy tp=8 -O report.html"},
  };
}

std::vector<Command> checking() {
  constexpr const char* kTitle = "Check it";
  return {
      {"verify",
       kVerify,
       kTitle,
       "Read a whole checkpoint and check files, replicas and CRCs",
       {{"SOURCE", kCheckpoint, true}},
       "Example: check a copy before you delete the original\n  (cd /old/ckpt && sha256sum "
       "*/*.ckpt) > SHA256SUMS\n  reshardfs verify /new/ckpt --src-strategy train.ckpt --against "
       "SHA256SUMS"},
      {"diff",
       kDiff,
       kTitle,
       "Compare two checkpoints by value, in any layouts and formats",
       {{"A", kCheckpoint, true}, {"B", "The checkpoint to compare it with", true}},
       "Example: does a merged bfloat16 file match the training checkpoint?\n  reshardfs diff ckpt "
       "merged.safetensors --a-strategy train.ckpt --rtol 0.01\nExample: does a hub model match "
       "the training checkpoint?\n  reshardfs diff ckpt hub-dir --a-strategy train.ckpt --a-map "
       "mindformers-qwen3 \\\n    --a-model-config hub-dir --a-training-config run.yaml --exclude "
       "'adam_*'"},
  };
}

std::vector<Command> strategies_and_maps() {
  constexpr const char* kTitle = "Strategies and model maps";
  const std::vector<Argument> file{
      {"FILE",
       "A MindSpore strategy (.ckpt or .json), a directory with one file per pipeline stage or "
       "these files themselves, rules (.toml, with --source), or a Checkpoint 2.0, which records "
       "its layouts",
       true, true}};
  const std::vector<Argument> map{{"MAP", "An installed map, or a .toml file of rules", true}};
  return {
      {"strategy", kGroup, kTitle, "Show, merge, convert, check or guess strategies"},
      {"strategy show", kStrategyShow, "", "List the layout of each parameter", file,
       "Example:\n  reshardfs strategy show train.ckpt"},
      {"strategy merge", kStrategyMerge, "",
       "Merge the files of all pipeline stages into one, like MindSpore's merge_pipeline_strategys",
       file, "Example:\n  reshardfs strategy merge stages/ --output merged.ckpt"},
      {"strategy convert",
       kStrategyConvert,
       "",
       "Write a strategy as protobuf, JSON or rules",
       {{"FILE",
         "As for 'strategy show', or sizes such as 'tp=2,pp=2' (with --source), for the target "
         "that "
         "they stand for",
         true, true}},
       "Example:\n  reshardfs strategy convert train.ckpt --output strategy.json\nExample: rules "
       "for a hub model; those that no model map states are to be completed\n  reshardfs strategy "
       "convert tp=2,pp=2 --source hub-dir --output target.toml"},
      {"strategy check", kStrategyCheck, "",
       "Check a strategy, and with --source whether it fits a checkpoint", file,
       "Example:\n  reshardfs strategy check train.ckpt --source ckpt\nExample: check rules "
       "against a hub model as a map shows it\n  reshardfs strategy check rules.toml --source "
       "hub-dir --map mindformers-qwen3 \\\n    --training-config run.yaml"},
      {"strategy guess",
       kStrategyGuess,
       "",
       "Determine from slices how they were cut, and write rules",
       {{"DIR", "A checkpoint with the files of all ranks", true}},
       "Example:\n  reshardfs strategy guess ckpt --model-config config.json --output rules.toml"},
      {"map", kGroup, kTitle, "List, check or draw model maps"},
      {"map list", kMapList, "", "List the installed maps", {}, "Example:\n  reshardfs map list"},
      {"map check", kMapCheck, "",
       "Check a map: which rule takes which tensor, and every problem at once", map,
       "Example:\n  reshardfs map check mindformers-qwen3 --source ckpt --src-strategy train.ckpt "
       "\\\n    --model-config hub-dir --training-config run.yaml"},
      {"map show", kMapShow, "", "Draw where the elements of a tensor come from", map,
       "Example:\n  reshardfs map show mindformers-qwen3 --source hub-dir --training-config "
       "run.yaml \\\n    --param decoder.layers.0.mlp.linear_fc1.weight"},
  };
}

std::vector<Command> starting() {
  constexpr const char* kTitle = "Get started";
  return {
      {"doctor",
       kDoctor,
       kTitle,
       "Check whether this machine can mount, and how to fix it if not",
       {{"SOURCE", "Checkpoints to open; with --config also names of mounts", false, true}},
       "Exit status 1: a check has failed.\n\nExample:\n  reshardfs doctor /data/ckpt"},
      {"demo",
       kDemo,
       kTitle,
       "Make a sample of 200 MB, mount it for 4 ranks, and check it",
       {{"DIR", "Keep the sample in this new directory; by default, use a temporary one"}},
       "Example:\n  reshardfs demo"},
      {"help",
       kHelp,
       kTitle,
       "Show the short help of a command, as -h does",
       {{"COMMAND", "A command, such as mount or strategy show", false, true}},
       "Example:\n  reshardfs help strategy show"},
  };
}

}  // namespace

const std::vector<Command>& all_commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> rows;
    for (auto&& more : {showing(), looking(), checking(), strategies_and_maps(), starting()}) {
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return all;
}

const Command& program_command() {
  static const Command program{
      "",
      kProgram,
      "",
      "Mount a distributed checkpoint as the files of another parallel strategy, without "
      "converting it.",
      {},
      "'reshardfs demo' gives a first look; reshardfs-tutorial(7) shows how to serve a training "
      "job's output; reshardfs(1) lists the manual pages.\nExit status: 0 success; 1 a check found "
      "a difference or damage; 2 bad usage or bad input; 3 an I/O error."};
  return program;
}

const Command& python_command() {
  static const Command opened{"mount", kPython, "", "", {{"SOURCE", kCheckpoint, true}}};
  return opened;
}

const Command* find_command(std::string_view name) {
  const auto found = std::find_if(all_commands().begin(), all_commands().end(),
                                  [&](const Command& command) { return command.name == name; });
  return found == all_commands().end() ? nullptr : &*found;
}

std::vector<std::string> commands_below(std::string_view name) {
  const std::string above = name.empty() ? "" : std::string(name) + " ";
  std::vector<std::string> names;
  for (const Command& command : all_commands()) {
    if (!command.name.starts_with(above)) continue;
    const std::string rest = command.name.substr(above.size());
    if (rest.find(' ') == std::string::npos) names.push_back(rest);
  }
  return names;
}

}  // namespace reshardfs
