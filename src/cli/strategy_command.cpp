// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"
#include "reshardfs/strategy_rules.h"

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/set_format.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "cli/write_file.h"
#include "conversion/conversion_tables.h"
#include "conversion/map_copies.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "conversion/strategy_input.h"
#include "plan/source/recorded_strategy.h"
#include "plan/source/source_table.h"
#include "plan/target/name_map.h"
#include "plan/target/target_table.h"
#include "report/text/strategy_listing.h"
#include "report/text/terminal.h"
#include "report/text/text.h"
#include "storage/local/directory.h"
#include "storage/location.h"
#include "strategy/derive/layer_stages.h"

namespace reshardfs {
namespace {

struct StrategyArguments {
  std::vector<std::string> inputs;
  SourceRequest request;         ///< of the source, if there is one
  bool lists_unmatched = false;  ///< rules that select nothing are listed, and no error
};

bool is_rules(const StrategyArguments& arguments) {
  return arguments.inputs.size() == 1 && StrategyRules::is_rules_file(arguments.inputs.front());
}

std::shared_ptr<const CheckpointSet> open_source(const StrategyArguments& arguments) {
  if (arguments.request.path.empty()) {
    throw Error(ErrorKind::kUsage, "rules need the parameters of a checkpoint")
        .in_file(arguments.inputs.front())
        .hint("name the checkpoint with --source");
  }
  auto set = open_set(arguments.request);
  for (const std::string& warning : set->warnings()) complain(warning);
  for (const std::string& line : model_warnings(model_question(arguments.request, *set))) {
    complain(line);
  }
  return set;
}

/// The layouts of a set that records them itself; nothing if the input is none.
std::optional<Strategy> recorded_layouts(const std::string& input) {
  if (!find_described_steps(input, CheckpointOptions{})) return std::nullopt;
  SourceRequest request;
  request.path = input;
  const auto checkpoint = open_set(request);
  if (!checkpoint->catalogue()) {
    throw Error(ErrorKind::kMissing, "records no layouts: it is the checkpoint of one device")
        .in_file(input);
  }
  try {
    return recorded_strategy(SourceTable(checkpoint, std::nullopt), OptimizerCut::kAsRecorded);
  } catch (Error& error) {
    throw error.in_file(input);
  }
}

Strategy load_inputs(const StrategyArguments& arguments) {
  const auto& inputs = arguments.inputs;
  if (is_rules(arguments)) {
    const StrategyRules rules = StrategyRules::load(inputs.front());
    const std::vector<NamedShape> shapes = slice_shapes(*open_source(arguments));
    if (!arguments.lists_unmatched) rules.require_matched(shapes);
    return rules.apply(shapes);
  }
  if (inputs.size() > 1) return Strategy::load_stages({inputs.begin(), inputs.end()});
  if (auto recorded = recorded_layouts(inputs.front())) return std::move(*recorded);
  return load_named_strategy(inputs.front());
}

/// In the form that the name of `output` asks for.
std::string strategy_text(const Strategy& strategy, const std::string& output) {
  if (StrategyRules::is_rules_file(output)) return to_rules(strategy);
  const bool json = std::filesystem::path(output).extension() == ".json";
  return json ? to_json(strategy) : to_protobuf(strategy);
}

/// What rules did with the parameters of the source.
int check_rules(const StrategyArguments& arguments, const std::vector<NamedShape>& parameters) {
  const StrategyRules rules = StrategyRules::load(arguments.inputs.front());
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
  const std::vector<std::string> unmatched = rules.unmatched(parameters);
  for (const std::string& line : unmatched) std::cout << line << "\n";
  if (unmatched.empty()) return kExitDone;
  std::cerr << "reshardfs: " << printable(rules.file()) << ": " << counted(unmatched.size(), "rule")
            << " without effect; optional = true in a rule says "
            << "that a checkpoint may have no such parameters" << std::endl;
  return kExitDifference;
}

/// Parameters without a layout of their own, and what becomes of them.
void print_without_layout(const SourceTable& table) {
  for (const SourceParameter& parameter : table.parameters()) {
    if (parameter.grid) continue;
    const SourceParameter* weight = table.find(weight_of(parameter.name));
    const bool follows = weight != nullptr && table.grid_like(parameter, *weight) != nullptr;
    std::cout << fmt::format("no layout: {}{}\n", printable(parameter.name),
                             follows ? ", follows its weight " + printable(weight->name) : "");
  }
}

std::size_t count_laid_out(const SourceTable& table) {
  const auto& parameters = table.parameters();
  return static_cast<std::size_t>(
      std::count_if(parameters.begin(), parameters.end(),
                    [](const auto& parameter) { return parameter.grid != nullptr; }));
}

SourceTableResult open_table(const StrategyArguments& arguments,
                             const std::shared_ptr<const CheckpointSet>& checkpoint) {
  if (is_rules(arguments)) {
    StrategyInput rules(arguments.inputs.front());
    rules.allow_unmatched();
    return source_table(checkpoint, rules, {});
  }
  return {std::make_shared<const SourceTable>(checkpoint, load_inputs(arguments)), {}, {}, {}};
}

/// As a mount decides it: of rules, what they do not take too.
int check_source(const StrategyArguments& arguments,
                 const std::shared_ptr<const CheckpointSet>& checkpoint) {
  try {
    const SourceTableResult source = open_table(arguments, checkpoint);
    const SourceTable& table = *source.table;
    std::cout << fmt::format("checkpoint: {}, {}, {} of them with a layout\n",
                             counted(checkpoint->files().size(), "file"),
                             counted(table.parameters().size(), "parameter"),
                             count_laid_out(table));
    for (const std::string& warning : source.warnings) std::cout << warning << "\n";
    for (const std::string& note : source.notes) std::cout << note << "\n";
    print_without_layout(table);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    std::cerr << "reshardfs: the strategy does not fit: " << error.what() << std::endl;
    return kExitDifference;
  }
  return is_rules(arguments) ? check_rules(arguments, slice_shapes(*checkpoint)) : kExitDone;
}

/// Whether a destination's strategy fits what maps show.
int check_shown(const StrategyArguments& arguments) {
  SourceOpening opening(arguments.request);
  opening.take_set(open_source(arguments));
  StrategyInput destination(arguments.inputs.front());
  destination.allow_unmatched();
  const NameMap names;
  MappedSourceOptions mapped = opening.mapped_options();
  mapped.compares_ranks = false;
  const SourceTableResult opened = opening.lay_out_unread({});
  compare_mapped_ranks(*opened.table, opening.maps(), arguments.request.replicas);
  const ModelMaps::Result shown =
      opening.maps().apply(opened.table, {&destination, &names}, mapped);
  std::vector<NamedShape> tensors;
  for (const SourceParameter& parameter : shown.table->parameters()) {
    tensors.push_back({parameter.name, parameter.grid->full_shape()});
  }
  try {
    std::optional<Strategy> strategy = destination.for_target(*shown.table, names);
    std::size_t laid_out = 0;
    for (const NamedShape& tensor : tensors) laid_out += strategy->contains(tensor.name) ? 1U : 0U;
    std::cout << "strategy: " << strategy_summary(*strategy) << "\n";
    std::cout << fmt::format("{}: {}, {} of them with a layout\n", printable(shown.side),
                             counted(tensors.size(), "tensor"), laid_out);
    for (const NamedShape& tensor : tensors) {
      if (!strategy->contains(tensor.name)) {
        std::cout << "no layout: " << printable(tensor.name) << "\n";
      }
    }
    const TargetTable table(shown.table, std::move(strategy), {});
    for (const std::string& warning : table.warnings()) std::cout << warning << "\n";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    std::cerr << "reshardfs: the strategy does not fit: " << error.what() << std::endl;
    return kExitDifference;
  }
  return is_rules(arguments) ? check_rules(arguments, tensors) : kExitDone;
}

/// An existing file wins over a text that could be sizes.
bool names_sizes(const Given& given) {
  const std::vector<std::string> inputs = given.arguments_of("FILE");
  return inputs.size() == 1 && is_derivation(inputs.front()) && !is_url(inputs.front()) &&
         path_kind(inputs.front()) == PathKind::kMissing;
}

/// The target that sizes stand for, as a conversion of the source has it.
int convert_sizes(const Given& given, const std::string& output) {
  ConversionOptions options;
  options.dst_sizes = parse_derivation(given.arguments_of("FILE").front());
  if (given.text("source").empty()) {
    throw Error(ErrorKind::kUsage, "sizes need the parameters of a checkpoint")
        .hint("name the checkpoint with --source");
  }
  options.source = source_request(given, absolute_source(given.text("source")));
  const std::string layers = given.text("stage-layers");
  if (!layers.empty()) options.stage_layers = parse_stage_layers(layers);
  if (!StrategyRules::is_rules_file(output)) {
    write_file(output, strategy_text(target_strategy(options), output), given.flag("force"));
    return kExitDone;
  }
  const RulesDraft draft = target_rules(options);
  write_file(output, draft.text, given.flag("force"));
  if (draft.blanks == 0) return kExitDone;
  complain(printable(output) + ": " + counted(draft.blanks, "rule") +
           " to complete, marked 'undecided'");
  return kExitDifference;
}

StrategyArguments strategy_arguments(const Given& given) {
  StrategyArguments arguments;
  arguments.inputs = given.arguments_of("FILE");
  const std::string source = given.text("source");
  arguments.request = source_request(given, source.empty() ? source : located(source));
  return arguments;
}

}  // namespace

int run_strategy_show(const Given& given) {
  const Strategy strategy = load_inputs(strategy_arguments(given));
  const std::string parameter = given.text("param");
  if (given.flag("json")) {
    std::cout << to_json(strategy) << "\n";
  } else if (!parameter.empty()) {
    std::cout << parameter_listing(strategy, parameter, output_columns());
  } else {
    std::cout << strategy_listing(strategy, output_columns());
  }
  return kExitDone;
}

int run_strategy_convert(const Given& given) {
  const std::string output = given.text("output");
  if (names_sizes(given)) return convert_sizes(given, output);
  write_file(output, strategy_text(load_inputs(strategy_arguments(given)), output),
             given.flag("force"));
  return kExitDone;
}

int run_strategy_check(const Given& given) {
  if (!given.texts("map").empty() && given.text("source").empty()) {
    throw Error(ErrorKind::kUsage, "--map needs a checkpoint").hint("name it with --source");
  }
  StrategyArguments arguments = strategy_arguments(given);
  arguments.lists_unmatched = true;
  if (!arguments.request.maps.maps.empty()) return check_shown(arguments);
  std::cout << "strategy: " << strategy_summary(load_inputs(arguments)) << "\n";
  return arguments.request.path.empty() ? kExitDone
                                        : check_source(arguments, open_source(arguments));
}

}  // namespace reshardfs
