// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/json_answer.h"
#include "cli/plan_simulation.h"
#include "cli/shown_words.h"
#include "cli/words/conversion_words.h"
#include "cli/words/shared_words.h"
#include "cli/write_file.h"
#include "daemon/open_conversion.h"
#include "report/text/terminal.h"
#include "report/text/text.h"
#include "view/control/control_json.h"

namespace reshardfs {
namespace {

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

void print_table(const Conversion& conversion, const ConversionOptions& options) {
  TextTable table({"RANK", "BYTES", "SOURCES", "FROM SOURCE RANKS"}, {0, 1, 2});
  for (const Rank rank : shown_ranks(options, conversion)) {
    const std::vector<SourceTraffic> traffic = conversion.traffic(rank);
    table.add_row({to_string(rank), human_bytes(sum(traffic)), std::to_string(traffic.size()),
                   traffic_text(traffic)});
  }
  table.wrap_last_column(output_columns());
  std::cout << table.str();
  for (const std::string& rule : conversion.rules()) std::cout << rule << "\n";
  const std::string cast = cast_words(conversion, options);
  if (!cast.empty()) std::cout << cast << "\n";
  if (!conversion.unstated().empty()) {
    std::cout << "unknown " << conversion.unstated() << "\n";
  }
}

int draw(const Given& given, const Conversion& conversion) {
  const std::string parameter = given.text("param");
  write_output(given.text("svg"), given.flag("force"), [&](const TextSink& out) {
    if (parameter.empty()) {
      conversion.draw_traffic(out);
    } else {
      conversion.draw_parameter(parameter, out);
    }
  });
  return kExitDone;
}

std::string json_of_ranks(const Conversion& conversion, const std::vector<Rank>& ranks) {
  JsonWriter plans(kIndentedJson);
  plans.open_object();
  plans.open_list("ranks");
  for (const Rank shown : ranks) write_plan(plans, shown, conversion.traffic(shown));
  plans.close_list();
  if (!conversion.unstated().empty()) plans.member("unstated", conversion.unstated());
  plans.close_object();
  return plans.take();
}

std::string json_of_rank(Rank rank, const std::vector<SourceTraffic>& traffic) {
  JsonWriter plan(kIndentedJson);
  write_plan(plan, rank, traffic);
  return plan.take();
}

std::optional<Rank> one_rank(const Given& given) {
  const auto number = given.number("rank");
  return number ? std::optional(Rank(*number)) : std::nullopt;
}

ConversionOptions plan_options(const Given& given) {
  ConversionOptions options = conversion_options(given);
  // Planning one rank must work where only that rank's sources are.
  if (const auto rank = one_rank(given)) options.ranks = {*rank};
  // Unless views are asked for: the whole model costs a table of its own.
  if (options.views.empty()) options.views = {ViewKind::kRanks};
  return options;
}

}  // namespace

std::string plan_json(const Given& given, Progress& /*progress*/) {
  const std::optional<Simulation> simulation = simulation_of(given);
  const ConversionOptions options = plan_options(given);
  const Conversion conversion = open_conversion(options);
  if (simulation) return simulation_json(conversion, *simulation);
  if (const auto rank = one_rank(given)) return json_of_rank(*rank, conversion.traffic(*rank));
  return json_of_ranks(conversion, shown_ranks(options, conversion));
}

int run_plan(const Given& given) {
  log_settings(given).apply();
  if (given.flag("json")) {
    Progress progress;
    std::cout << plan_json(given, progress) << "\n";
    return kExitDone;
  }
  const std::optional<Simulation> simulation = simulation_of(given);
  const ConversionOptions options = plan_options(given);
  const Conversion conversion = open_conversion(options);
  if (simulation) return simulate(conversion, *simulation, given);
  if (!given.text("svg").empty()) return draw(given, conversion);
  if (const auto rank = one_rank(given)) {
    std::cout << fmt::format("{}\n", fmt::join(ranks_of(conversion.traffic(*rank)), " "));
  } else {
    print_table(conversion, options);
  }
  return kExitDone;
}

}  // namespace reshardfs
