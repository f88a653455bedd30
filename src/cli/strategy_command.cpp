// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"
#include "reshardfs/strategy_rules.h"

#include "checkpoint/checkpoint_set.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/strategy_picture.h"
#include "cli/text.h"
#include "cli/write_file.h"
#include "plan/source_table.h"
#include "plan/target_table.h"
#include "view/strategy_input.h"

namespace reshardfs {
namespace {

struct StrategyArguments {
  std::vector<std::string> inputs;
  std::string output;
  std::string source;
  std::string parameter;
  bool force = false;
  bool json = false;
};

bool is_rules(const StrategyArguments& arguments) {
  return arguments.inputs.size() == 1 && StrategyRules::is_rules_file(arguments.inputs.front());
}

CheckpointSet open_source(const StrategyArguments& arguments) {
  if (arguments.source.empty()) {
    throw Error(ErrorKind::kUsage, "rules need to know the parameters that they are for")
        .in_file(arguments.inputs.front())
        .hint("name the checkpoint with --source");
  }
  return CheckpointSet::open(arguments.source, CheckpointOptions{});
}

Strategy load_inputs(const StrategyArguments& arguments) {
  const auto& inputs = arguments.inputs;
  if (is_rules(arguments)) {
    return StrategyRules::load(inputs.front()).apply(slice_shapes(open_source(arguments)));
  }
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

/// Each stage's device matrices (nearly always one) with the ranks on them.
void print_device_matrices(const Strategy& strategy) {
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) {
    std::set<std::vector<std::int64_t>> matrices;
    for (const auto& [name, layout] : strategy.stage(s)) matrices.insert(layout.device_matrix);
    const std::int64_t stage = strategy.first_stage() + s;
    for (const auto& matrix : matrices) {
      std::cout << fmt::format("stage {}, device matrix {}, ranks:\n{}\n", stage, to_string(matrix),
                               device_matrix_picture(matrix, stage * strategy.devices_per_stage()));
    }
  }
}

/// Which part of one parameter each rank holds.
int show_parameter(const Strategy& strategy, const std::string& name) {
  const std::vector<std::int64_t> stages = strategy.stages_of(name);
  if (stages.empty()) {
    throw Error(ErrorKind::kMissing, "the strategy does not lay it out").for_parameter(name);
  }
  for (const std::int64_t s : stages) {
    const std::int64_t stage = strategy.first_stage() + s;
    const Layout& layout = strategy.stage(s).at(name);
    std::cout << fmt::format("{}, stage {}: {}\n", printable(name), stage, to_string(layout))
              << "dimension 0 runs down, dimension 1 across; ranks that hold each part:\n"
              << slice_picture(layout, stage * strategy.devices_per_stage());
  }
  return kExitDone;
}

int run_show(const StrategyArguments& arguments) {
  const Strategy strategy = load_inputs(arguments);
  if (arguments.json) {
    std::cout << to_json(strategy) << "\n";
    return kExitDone;
  }
  if (!arguments.parameter.empty()) return show_parameter(strategy, arguments.parameter);
  std::cout << summary(strategy) << "\n\n";
  print_device_matrices(strategy);
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
  write_strategy(load_inputs(arguments), arguments.output, arguments.force);
  return kExitDone;
}

/// What rules did with the parameters of the source.
int check_rules(const StrategyArguments& arguments, const CheckpointSet& checkpoint) {
  const StrategyRules rules = StrategyRules::load(arguments.inputs.front());
  const std::vector<NamedShape> parameters = slice_shapes(checkpoint);
  const std::vector<RuleMatch> matches = rules.matches(parameters);
  TextTable table({"PARAMETER", "LINE", "RULE"}, {1});
  std::set<std::string> taken;
  for (const RuleMatch& match : matches) {
    taken.insert(match.parameter);
    table.add_row({printable(match.parameter), std::to_string(match.line), printable(match.glob)});
  }
  for (const NamedShape& parameter : parameters) {
    if (!taken.contains(parameter.name)) table.add_row({printable(parameter.name), "-", "no rule"});
  }
  std::cout << table.str();
  for (const RuleMatch& rule : rules.unused(parameters)) {
    std::cout << fmt::format("line {}: the rule '{}' took no parameter\n", rule.line,
                             printable(rule.glob));
  }
  return kExitDone;
}

/// Parameters without a layout of their own, and what becomes of them.
void print_without_layout(const SourceTable& table) {
  for (const SourceParameter& parameter : table.parameters()) {
    if (parameter.layout) continue;
    const SourceParameter* weight = table.find(weight_of(parameter.name));
    const bool follows = weight != nullptr && table.grid_like(parameter, *weight) != nullptr;
    std::cout << fmt::format("no layout: {}{}\n", printable(parameter.name),
                             follows ? ", follows its weight " + printable(weight->name) : "");
  }
}

int run_check(const StrategyArguments& arguments) {
  const Strategy strategy = load_inputs(arguments);
  std::cout << "strategy: " << summary(strategy) << "\n";
  if (arguments.source.empty()) return kExitDone;
  const auto checkpoint = std::make_shared<const CheckpointSet>(open_source(arguments));
  try {
    const SourceTable table(checkpoint, strategy);
    std::size_t laid_out = 0;
    for (const SourceParameter& parameter : table.parameters()) laid_out += bool(parameter.layout);
    std::cout << fmt::format("checkpoint: {} files, {} parameters, {} of them with a layout\n",
                             checkpoint->files().size(), table.parameters().size(), laid_out);
    print_without_layout(table);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    std::cerr << "reshardfs: the strategy does not fit: " << error.what() << std::endl;
    return kExitDifference;
  }
  return is_rules(arguments) ? check_rules(arguments, *checkpoint) : kExitDone;
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
  show->add_option("--param", arguments->parameter,
                   "Draw which part of this parameter each rank holds")
      ->type_name("NAME");
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
  convert->add_option("--source", arguments->source, "For .toml rules: the checkpoint they are for")
      ->type_name("DIR|FILE");
  convert->footer("Example:\n  reshardfs strategy convert strategy.ckpt --output strategy.json");
  CLI::App* check = add_verb(*strategy, action, "check",
                             "Check a strategy, and with --source whether it fits a checkpoint",
                             run_check, arguments);
  check->add_option("--source", arguments->source, "The checkpoint it should fit")
      ->type_name("DIR|FILE");
  check->footer("Example:\n  reshardfs strategy check src_strategy.ckpt --source ckpt");
}

}  // namespace reshardfs
