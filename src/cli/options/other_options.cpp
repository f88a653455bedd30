// SPDX-License-Identifier: Apache-2.0
#include "cli/options/groups.h"
#include "cli/options/value_checks.h"

namespace reshardfs {
namespace {

using namespace commands;

constexpr Commands kFileStrategies =
    kStrategyShow | kStrategyMerge | kStrategyConvert | kStrategyCheck;

std::vector<Option> places_of_mounts() {
  return {
      {.name = "if-mounted", .help = "Succeed even if nothing is mounted", .commands = kUmount},
      {.name = "if-dead",
       .help = "Unmount only if no process serves the mount or can take it over",
       .commands = kUmount},
      {.name = "replace",
       .help = "Show what the command line and the configuration file now describe, even if it is "
               "something else: open files keep their contents",
       .commands = kReload},
      {.name = "timeout",
       .takes = Takes::kNumber,
       .type = "SECONDS",
       .help = "How long to wait for the new process",
       .fallback = "900",
       .least = 1,
       .most = 86400,
       .commands = kReload},
      {.name = "timeout",
       .takes = Takes::kNumber,
       .type = "SECONDS",
       .help = "How long each check may take",
       .fallback = "30",
       .least = 1,
       .most = 86400,
       .commands = kDoctor},
      {.name = "fstab",
       .takes = Takes::kText,
       .type = "FILE",
       .help = "Check what the entries of this file use, e.g. /etc/fstab",
       .commands = kDoctor},
      {.name = "ready",
       .help = "Only report whether the mount answers and its source is unchanged, for probes",
       .needs = {"MOUNTPOINT"},
       .excludes = {"json"},
       .commands = kStatus},
      {.name = "metrics",
       .help = "Print the metrics of all mounts in the text format of Prometheus",
       .excludes = {"json", "ready"},
       .commands = kStatus},
  };
}

std::vector<Option> writing() {
  return {
      {.name = "share",
       .takes = Takes::kText,
       .type = "I/N|auto",
       .help = "Write only part I of N, counted from 0, while other processes write the others; "
               "auto reads I and N from the variables of Slurm or MPI",
       .commands = kExport},
      {.name = "reflink",
       .help = "Share blocks with the source, on XFS and Btrfs: takes little time and no space for "
               "what safetensors files have in long pieces; these get headers of fitting length",
       .commands = kExport},
      {.name = "checksum",
       .help = "Also write SHA256SUMS, for 'sha256sum -c'; with --share, always",
       .commands = kExport},
  };
}

std::vector<Option> listings() {
  return {
      {.name = "list",
       .help = "List all parameters, a line for each, and say nothing else",
       .excludes = {"tree", "depth", "stats", "json"},
       .commands = kInspect},
      {.name = "tree",
       .help = "Show the model as a tree, and say nothing else",
       .excludes = {"stats", "json"},
       .commands = kInspect},
      {.name = "depth",
       .takes = Takes::kNumber,
       .type = "NUMBER",
       .help = "Levels of the tree; by default, as many as fit on the terminal",
       .least = 1,
       .most = 1000,
       .excludes = {"stats", "json"},
       .commands = kInspect},
      {.name = "stats",
       .help = "Read all data: smallest, largest, mean, standard deviation, and how many NaN, Inf "
               "and zeros",
       .commands = kInspect},
      {.name = "only-bad",
       .help = "With --stats: only parameters with NaN or infinite elements",
       .needs = {"stats"},
       .commands = kInspect},
      {.name = "fail-on-nan",
       .help = "With --stats: exit with 1 if an element is NaN or infinite",
       .needs = {"stats"},
       .commands = kInspect},
      {.name = "why",
       .takes = Takes::kText,
       .type = "NAME",
       .help =
           "Print where the numbers behind a parameter come from, and the bytes that it is read "
           "from; NAME may be a pattern, such as '*layers.7.*up_proj*'",
       .excludes = {"list", "tree", "depth", "stats", "json"},
       .commands = kInspect},
  };
}

std::vector<Option> plans() {
  return {
      {.name = "rank",
       .takes = Takes::kNumber,
       .type = "INT",
       .help = "List the source ranks that this target rank reads, one line",
       .check = check_rank,
       .excludes = {"simulate"},
       .commands = kPlan},
      {.name = "svg",
       .takes = Takes::kText,
       .type = "FILE",
       .help = "Write a heat map of the traffic to this file; - for standard output",
       .excludes = {"json"},
       .commands = kPlan},
      {.name = "param",
       .takes = Takes::kText,
       .type = "NAME",
       .help = "With --svg: draw which source rank each part of this parameter comes from",
       .needs = {"svg"},
       .excludes = {"simulate"},
       .commands = kPlan},
      {.name = "simulate",
       .takes = Takes::kNumber,
       .type = "NODES",
       .help = "Show what each of this many nodes would fetch, with the target ranks spread over "
               "them in order",
       .commands = kPlan},
      {.name = "node-bandwidth",
       .takes = Takes::kText,
       .type = "SIZE",
       .help = "With --simulate: what a node can fetch in a second, e.g. 12.5GB/s or 100Gbit/s",
       .needs = {"simulate"},
       .commands = kPlan},
      {.name = "store-bandwidth",
       .takes = Takes::kText,
       .type = "SIZE",
       .help = "With --simulate: what the store can deliver to all nodes in a second",
       .needs = {"simulate"},
       .commands = kPlan},
  };
}

std::vector<Option> single_parameters() {
  return {
      {.name = "param",
       .takes = Takes::kText,
       .type = "NAME",
       .help = "Print the raw bytes of a whole parameter instead of FILE",
       .commands = kCat},
      {.name = "npy", .help = "With --param: print a NumPy file", .commands = kCat},
      {.name = "param",
       .takes = Takes::kText,
       .type = "NAME",
       .help = "Draw which part of this parameter each rank holds",
       .commands = kStrategyShow},
      {.name = "param",
       .takes = Takes::kText,
       .type = "NAME",
       .help = "A tensor, by the name that the map shows",
       .required = true,
       .commands = kMapShow},
      {.name = "against",
       .takes = Takes::kText,
       .type = "FILE",
       .help = "Also compare the files with this output of sha256sum",
       .commands = kVerify},
  };
}

std::vector<Option> sources_of_strategies() {
  return {
      {.name = "source",
       .takes = Takes::kText,
       .type = "DIR|FILE",
       .help = "The checkpoint that .toml rules or sizes are for",
       .commands = kFileStrategies & ~kStrategyCheck},
      {.name = "source",
       .takes = Takes::kText,
       .type = "DIR|FILE",
       .help = "The checkpoint to compare the strategy with",
       .commands = kStrategyCheck},
      {.name = "source",
       .takes = Takes::kText,
       .type = "SOURCE",
       .help = "A checkpoint, as for mount",
       .commands = kMapCheck},
      {.name = "source",
       .takes = Takes::kText,
       .type = "SOURCE",
       .help = "A checkpoint, as for mount",
       .required = true,
       .commands = kMapShow},
      {.name = "full", .help = "Compare all bytes instead of samples", .commands = kStrategyGuess},
  };
}

std::vector<Option> outputs() {
  return {
      {.name = "json",
       .help = "Print JSON",
       .commands = kStatus | kInspect | kPlan | kVerify | kDiff | kMapList | kMapCheck | kDoctor},
      {.name = "json", .help = "Print MindSpore's JSON form", .commands = kStrategyShow},
      {.name = "output",
       .letter = 'O',
       .takes = Takes::kText,
       .type = "FILE",
       .help = "Write the page, one self-contained HTML file, here; - for standard output",
       .required = true,
       .commands = kReport},
      {.name = "output",
       .letter = 'O',
       .takes = Takes::kText,
       .type = "FILE",
       .help = "Output file: .json for JSON, .toml for rules, any other name for protobuf",
       .required = true,
       .commands = kStrategyMerge | kStrategyConvert},
      {.name = "output",
       .letter = 'O',
       .takes = Takes::kText,
       .type = "FILE",
       .help = "Write the rules to this file; by default, or with -, to standard output",
       .commands = kStrategyGuess},
      {.name = "force",
       .help = "Replace FILE if it exists",
       .commands = kPlan | kReport | kStrategyMerge | kStrategyConvert | kStrategyGuess},
      {.name = "force",
       .help = "Replace files that differ, and an export of another conversion",
       .commands = kExport},
  };
}

std::vector<Option> files_of_options() {
  return {
      {.name = "config",
       .takes = Takes::kText,
       .type = "FILE.toml",
       .help = "Read options from a TOML file, one key per long option; the command line overrides "
               "it",
       .commands = kConversionPrograms},
      {.name = "config",
       .takes = Takes::kText,
       .type = "FILE.toml",
       .help = "Read options from a TOML file",
       .commands = kInspect | kVerify | kDiff},
      {.name = "config",
       .takes = Takes::kText,
       .type = "FILE.toml",
       .help = "Look up MOUNTPOINT as a mount's name in a TOML file",
       .commands = kUmount | kReload},
      {.name = "config",
       .takes = Takes::kText,
       .type = "FILE.toml",
       .help = "Check what this file's mounts use; with SOURCE, those of that name",
       .commands = kDoctor},
  };
}

}  // namespace

std::vector<Option> own_group() {
  std::vector<Option> rows;
  for (auto&& more : {places_of_mounts(), writing(), listings(), plans(), sources_of_strategies(),
                      single_parameters(), outputs()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

std::vector<Option> general_group() {
  std::vector<Option> rows = files_of_options();
  rows.push_back({.name = "version", .help = "Print the version and exit", .commands = kProgram});
  rows.push_back(
      {.name = "help", .letter = 'h', .help = "Print this help and exit", .commands = kAll});
  return rows;
}

}  // namespace reshardfs
