// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "checkpoint/checkpoint_set.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/log.h"
#include "cli/text.h"
#include "cli/write_file.h"
#include "plan/source_table.h"

namespace reshardfs {
namespace {

struct StrategyArguments {
  std::vector<std::string> inputs;
  std::string output;
  std::string source;
  bool force = false;
  bool json = false;
};

Strategy load_inputs(const std::vector<std::string>& inputs) {
  if (inputs.size() == 1) return Strategy::load(inputs.front());
  return Strategy::load_stages({inputs.begin(), inputs.end()});
}

std::string map_text(const TensorMap& map) {
  std::string out = "[";
  for (const auto& axes : map) {
    if (out.size() > 1) out += ", ";
    if (axes.empty()) {
      out += "-1";
    } else if (axes.size() == 1) {
      out += std::to_string(axes.front());
    } else {
      out += fmt::format("[{}]", fmt::join(axes, ", "));
    }
  }
  return out + "]";
}

std::string optimizer_text(const Layout& layout) {
  if (layout.optimizer_shard_size == 0) return "-";
  return layout.optimizer_shard_size < 0 ? "all" : std::to_string(layout.optimizer_shard_size);
}

std::string summary(const Strategy& strategy) {
  std::size_t parameters = 0;
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) parameters += strategy.stage(s).size();
  return fmt::format("{} {} of {} {}, {} layouts", strategy.stage_count(),
                     strategy.stage_count() == 1 ? "stage" : "stages", strategy.devices_per_stage(),
                     strategy.devices_per_stage() == 1 ? "device" : "devices", parameters);
}

int run_show(const StrategyArguments& arguments) {
  const Strategy strategy = load_inputs(arguments.inputs);
  if (arguments.json) {
    std::cout << to_json(strategy) << "\n";
    return kExitDone;
  }
  std::cout << summary(strategy) << "\n\n";
  TextTable table({"STAGE", "PARAMETER", "DEVICE MATRIX", "TENSOR MAP", "OPTIMIZER SHARD"}, {0, 4});
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) {
    for (const auto& [name, layout] : strategy.stage(s)) {
      table.add_row({std::to_string(strategy.first_stage() + s), printable(name),
                     to_string(layout.device_matrix), map_text(layout.tensor_map),
                     optimizer_text(layout)});
    }
  }
  std::cout << table.str();
  return kExitDone;
}

void write_strategy(const Strategy& strategy, const std::string& output, bool force) {
  const bool json = std::filesystem::path(output).extension() == ".json";
  write_file(output, json ? to_json(strategy) : to_protobuf(strategy), force);
}

int run_write(const StrategyArguments& arguments) {
  write_strategy(load_inputs(arguments.inputs), arguments.output, arguments.force);
  return kExitDone;
}

int run_check(const StrategyArguments& arguments) {
  const Strategy strategy = load_inputs(arguments.inputs);
  std::cout << "strategy: " << summary(strategy) << "\n";
  if (arguments.source.empty()) return kExitDone;
  const auto checkpoint = std::make_shared<const CheckpointSet>(
      CheckpointSet::open(arguments.source, CheckpointOptions{}));
  try {
    const SourceTable table(checkpoint, strategy);
    std::size_t laid_out = 0;
    for (const SourceParameter& parameter : table.parameters()) laid_out += bool(parameter.layout);
    std::cout << fmt::format("checkpoint: {} ranks, {} parameters, {} of them with a layout\n",
                             checkpoint->files().size(), table.parameters().size(), laid_out);
    for (const SourceParameter& parameter : table.parameters()) {
      if (!parameter.layout) std::cout << "no layout: " << printable(parameter.name) << "\n";
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    std::cerr << "reshardfs: the strategy does not fit: " << error.what() << std::endl;
    return kExitDifference;
  }
  return kExitDone;
}

CLI::App* add_verb(CLI::App& strategy, CommandAction& action, const std::string& name,
                   const std::string& text, int (*run)(const StrategyArguments&),
                   const std::shared_ptr<StrategyArguments>& arguments) {
  CLI::App* verb = strategy.add_subcommand(name, text);
  verb->add_option("FILE", arguments->inputs,
                   "A MindSpore strategy (.ckpt or .json), a directory with one file for each "
                   "pipeline stage, or the stages' files")
      ->required();
  verb->callback(
      [&action, arguments, run] { action = [arguments, run] { return run(*arguments); }; });
  return verb;
}

void add_output(CLI::App& verb, const std::shared_ptr<StrategyArguments>& arguments) {
  verb.add_option("-O,--output", arguments->output,
                  "Where to write: JSON if the name ends in .json, else protobuf")
      ->type_name("FILE")
      ->required();
  verb.add_flag("--force", arguments->force, "Replace the file if it exists");
}

}  // namespace

void add_strategy_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<StrategyArguments>();
  CLI::App* strategy =
      app.add_subcommand("strategy", "Show, merge, convert or check strategy files");
  strategy->require_subcommand(1);
  CLI::App* show = add_verb(*strategy, action, "show", "List the layouts of all parameters",
                            run_show, arguments);
  show->add_flag("--json", arguments->json, "Print MindSpore's JSON form");
  show->footer("Example:\n  reshardfs strategy show src_strategy.ckpt");
  CLI::App* merge = add_verb(*strategy, action, "merge",
                             "Merge the files of all pipeline stages into one, as MindSpore's "
                             "merge_pipeline_strategys does",
                             run_write, arguments);
  add_output(*merge, arguments);
  merge->footer("Example:\n  reshardfs strategy merge stages/ --output merged.ckpt");
  CLI::App* convert =
      add_verb(*strategy, action, "convert", "Write a strategy in MindSpore's other format",
               run_write, arguments);
  add_output(*convert, arguments);
  convert->footer("Example:\n  reshardfs strategy convert strategy.ckpt --output strategy.json");
  CLI::App* check = add_verb(*strategy, action, "check",
                             "Check a strategy, and with --source whether it fits a checkpoint",
                             run_check, arguments);
  check->add_option("--source", arguments->source, "The checkpoint it should fit")
      ->type_name("DIR|FILE");
  check->footer("Example:\n  reshardfs strategy check src_strategy.ckpt --source ckpt");
}

}  // namespace reshardfs
