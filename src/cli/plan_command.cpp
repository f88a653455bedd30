// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/plan_simulation.h"
#include "cli/words/conversion_arguments.h"
#include "cli/write_file.h"
#include "daemon/open_conversion.h"
#include "report/text/terminal.h"
#include "report/text/text.h"
#include "view/control/plan_json.h"

namespace reshardfs {
namespace {

struct PlanArguments {
  ConversionArguments conversion;
  std::optional<Rank> rank;
  bool json = false;
  std::string svg;
  std::string parameter;
  bool force = false;
  SimulationArguments simulation;
};

Rank rank_argument(std::int64_t number) {
  if (number >= 0) return Rank(number);
  throw CLI::ValidationError("--rank",
                             std::to_string(number) + " is not a rank: ranks count from 0");
}

std::vector<Rank> shown_ranks(const ConversionOptions& options, const Conversion& conversion) {
  if (!options.ranks.empty()) return options.ranks;
  const RankRange all(Rank(), conversion.rank_count());
  return {all.begin(), all.end()};
}

std::uint64_t sum(const std::vector<SourceTraffic>& traffic) {
  std::uint64_t total = 0;
  for (const SourceTraffic& source : traffic) total += source.bytes;
  return total;
}

/// "24.7 MiB each from 0,4; 5.6 KiB each from 1-3,5-7", the most first.
std::string traffic_text(const std::vector<SourceTraffic>& traffic) {
  std::map<std::uint64_t, std::vector<Rank>, std::greater<>> ranks;
  for (const SourceTraffic& source : traffic) ranks[source.bytes].push_back(source.rank);
  // Those that look alike, too.
  std::vector<std::pair<std::string, std::vector<Rank>>> groups;
  for (auto& [bytes, alike] : ranks) {
    const std::string text = human_bytes(bytes);
    if (groups.empty() || groups.back().first != text)
      groups.emplace_back(text, std::vector<Rank>());
    groups.back().second.insert(groups.back().second.end(), alike.begin(), alike.end());
  }
  std::vector<std::string> parts;
  parts.reserve(groups.size());
  for (auto& [bytes, alike] : groups) {
    std::sort(alike.begin(), alike.end());
    parts.push_back(fmt::format("{}{} from {}", bytes, alike.size() == 1 ? "" : " each",
                                format_rank_list(alike)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

void print_table(const Conversion& conversion, const std::vector<Rank>& ranks) {
  TextTable table({"RANK", "BYTES", "SOURCES", "FROM SOURCE RANKS"}, {0, 1, 2});
  for (const Rank rank : ranks) {
    const std::vector<SourceTraffic> traffic = conversion.traffic(rank);
    table.add_row({to_string(rank), human_bytes(sum(traffic)), std::to_string(traffic.size()),
                   traffic_text(traffic)});
  }
  table.wrap_last_column(output_columns());
  std::cout << table.str();
  for (const std::string& rule : conversion.rules()) std::cout << rule << "\n";
}

int draw(const PlanArguments& arguments, const Conversion& conversion) {
  write_output(arguments.svg, arguments.force, [&](const TextSink& out) {
    if (arguments.parameter.empty()) {
      conversion.draw_traffic(out);
    } else {
      conversion.draw_parameter(arguments.parameter, out);
    }
  });
  return kExitDone;
}

int run_plan(const PlanArguments& arguments) {
  arguments.conversion.log.apply();
  ConversionOptions options = arguments.conversion.options();
  // Planning one rank must work where only that rank's sources are.
  if (arguments.rank) options.ranks = {*arguments.rank};
  // The whole model is not what a plan is about, and costs a table of its own.
  options.views = {ViewKind::kRanks};
  const Conversion conversion = open_conversion(options);
  if (arguments.simulation.nodes) {
    return simulate(conversion, arguments.simulation,
                    {arguments.json, arguments.svg, arguments.force});
  }
  if (!arguments.svg.empty()) return draw(arguments, conversion);
  if (arguments.rank) {
    const std::vector<SourceTraffic> traffic = conversion.traffic(*arguments.rank);
    if (arguments.json) {
      std::cout << plan_json(*arguments.rank, traffic).dump(2) << "\n";
    } else {
      std::cout << fmt::format("{}\n", fmt::join(ranks_of(traffic), " "));
    }
    return kExitDone;
  }
  const std::vector<Rank> ranks = shown_ranks(options, conversion);
  if (!arguments.json) {
    print_table(conversion, ranks);
    return kExitDone;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Rank rank : ranks) list.push_back(plan_json(rank, conversion.traffic(rank)));
  std::cout << nlohmann::ordered_json{{"ranks", std::move(list)}}.dump(2) << "\n";
  return kExitDone;
}

}  // namespace

void add_plan_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Show how much each target rank reads from which source ranks");
  command->add_option("SOURCE", arguments->conversion.source, "A checkpoint, as for mount")
      ->required();
  CLI::Option* rank =
      command
          ->add_option_function<std::int64_t>(
              "--rank",
              [arguments](const std::int64_t& number) { arguments->rank = rank_argument(number); },
              "List the source ranks that this target rank reads, one line")
          ->take_last();
  CLI::Option* json = command->add_flag("--json", arguments->json, "Print JSON");
  CLI::Option* svg =
      command
          ->add_option("--svg", arguments->svg,
                       "Write a heat map of the traffic to this file; - for standard output")
          ->type_name("FILE")
          ->excludes(json)
          ->take_last();
  CLI::Option* parameter =
      command
          ->add_option("--param", arguments->parameter,
                       "With --svg: draw which source rank each part of this parameter comes from")
          ->type_name("NAME")
          ->needs(svg)
          ->take_last();
  command->add_flag("--force", arguments->force, "Replace FILE if it exists");
  arguments->simulation.add_to(*command)->excludes(rank)->excludes(parameter);
  arguments->conversion.add_to(*command);
  command->footer(
      "Example: list the source ranks whose files target rank 3 needs\n  reshardfs plan ckpt "
      "--src-strategy train.ckpt --dst-strategy serve.ckpt --rank 3\nExample: draw which rank "
      "reads from which\n  reshardfs plan ckpt --src-strategy train.ckpt --dst-strategy tp=8 --svg "
      "traffic.svg");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_plan(*arguments); }; });
}

}  // namespace reshardfs
