// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_simulation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iostream>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"
#include "reshardfs/node_fetches.h"

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "cli/app.h"
#include "cli/write_file.h"
#include "report/fetch_picture.h"
#include "report/text/json_output.h"
#include "report/text/terminal.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

using Nodes = std::vector<NodeFetches>;
using Bytes = std::uint64_t NodeFetches::*;

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array<Unit, 14> kUnits{{{"B", 1},
                                       {"kB", 1e3},
                                       {"MB", 1e6},
                                       {"GB", 1e9},
                                       {"TB", 1e12},
                                       {"KiB", 0x1p10},
                                       {"MiB", 0x1p20},
                                       {"GiB", 0x1p30},
                                       {"TiB", 0x1p40},
                                       {"bit", 1.0 / 8},
                                       {"kbit", 1e3 / 8},
                                       {"Mbit", 1e6 / 8},
                                       {"Gbit", 1e9 / 8},
                                       {"Tbit", 1e12 / 8}}};

bool equal_but_for_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

// --- sums
// ------------------------------------------------------------------------------------------

std::uint64_t sum(const Nodes& nodes, Bytes bytes) {
  std::uint64_t total = 0;
  for (const NodeFetches& node : nodes) total += node.*bytes;
  return total;
}

FetchTimes times(const Nodes& nodes, Bytes bytes, const Bandwidths& bandwidths) {
  std::vector<std::uint64_t> list;
  list.reserve(nodes.size());
  for (const NodeFetches& node : nodes) list.push_back(node.*bytes);
  return fetch_times(list, bandwidths);
}

std::uint64_t largest_cache(const Nodes& nodes) {
  std::uint64_t most = 0;
  for (const NodeFetches& node : nodes) most = std::max(most, node.cache);
  return most;
}

// --- the table
// -------------------------------------------------------------------------------------

std::string ratio(std::uint64_t fetched, std::uint64_t needed) {
  if (needed == 0) return "-";
  return fmt::format("{:.2f}", static_cast<double>(fetched) / static_cast<double>(needed));
}

std::vector<std::string> figures(std::uint64_t needed, std::uint64_t fetched,
                                 std::uint64_t fetched_cached, std::uint64_t cache) {
  return {human_bytes(needed),         human_bytes(fetched),          ratio(fetched, needed),
          human_bytes(fetched_cached), ratio(fetched_cached, needed), human_bytes(cache)};
}

std::vector<std::string> figures(const NodeFetches& node) {
  return figures(node.needed, node.fetched, node.fetched_cached, node.cache);
}

/// A row for nodes that look alike, in the order of their first ones.
std::string node_table(const Nodes& nodes) {
  std::vector<std::pair<std::vector<std::string>, std::vector<Rank>>> rows;
  std::map<std::vector<std::string>, std::size_t> row_of;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::vector<std::string> cells = figures(nodes[node]);
    const auto [row, is_new] = row_of.try_emplace(cells, rows.size());
    if (is_new) rows.push_back({cells, {}});
    // Lists of nodes are written as those of ranks.
    rows[row->second].second.emplace_back(static_cast<std::int64_t>(node));
  }
  TextTable table({"EACH NEEDS", "FETCHES", "RATIO", "WITH CACHE", "RATIO", "CACHE", "NODES"},
                  {0, 1, 2, 3, 4, 5});
  for (auto& [cells, alike] : rows) {
    cells.push_back(format_rank_list(alike));
    table.add_row(std::move(cells));
  }
  auto all = figures(sum(nodes, &NodeFetches::needed), sum(nodes, &NodeFetches::fetched),
                     sum(nodes, &NodeFetches::fetched_cached), sum(nodes, &NodeFetches::cache));
  all.emplace_back("all together");
  table.add_row(std::move(all));
  table.wrap_last_column(output_columns());
  return table.str();
}

std::string seconds_text(const std::optional<double>& seconds) {
  if (!seconds) return "-";
  if (*seconds < 60) return fmt::format("{:.3g} s", *seconds);
  // Nobody waits for longer.
  constexpr double kMost = 1e15;
  return duration_text(static_cast<std::uint64_t>(std::ceil(std::min(*seconds, kMost))));
}

std::string bandwidth_text(const std::optional<double>& bandwidth) {
  constexpr double kMost = 1e18;
  if (!bandwidth) return "no bandwidth given";
  return human_bytes(static_cast<std::uint64_t>(std::min(*bandwidth, kMost))) + "/s";
}

std::string time_table(const Nodes& nodes, const Bandwidths& bandwidths) {
  if (!bandwidths.node && !bandwidths.store) {
    return "For times, give --node-bandwidth and --store-bandwidth.\n";
  }
  const FetchTimes without = times(nodes, &NodeFetches::fetched, bandwidths);
  const FetchTimes cached = times(nodes, &NodeFetches::fetched_cached, bandwidths);
  TextTable table({"TIME AT LEAST", "AT", "WITHOUT CACHE", "WITH CACHE"}, {1, 2, 3});
  table.add_row({"slowest node", bandwidth_text(bandwidths.node), seconds_text(without.node),
                 seconds_text(cached.node)});
  table.add_row({"store", bandwidth_text(bandwidths.store), seconds_text(without.store),
                 seconds_text(cached.store)});
  table.add_row({"all", "", seconds_text(without.least()), seconds_text(cached.least())});
  return table.str();
}

std::string placement_text(const Nodes& nodes) {
  std::size_t ranks = 0;
  for (const NodeFetches& node : nodes) ranks += node.ranks.size();
  std::string text = fmt::format("{} on {}: node 0 has {}", counted(ranks, "target rank"),
                                 counted(nodes.size(), "node"), rank_words(nodes.front().ranks));
  if (nodes.size() > 1) {
    text += fmt::format(", node {} {}", nodes.size() - 1, rank_words(nodes.back().ranks));
  }
  return text;
}

void print_text(const Nodes& nodes, const Bandwidths& bandwidths) {
  const std::string second_run = fmt::format(
      "A second run fetches the same again without a cache, and nothing with a cache of {} on each "
      "node.",
      human_bytes(largest_cache(nodes)));
  std::cout << wrapped(placement_text(nodes), output_columns(), 4) << "\n\n"
            << node_table(nodes) << "\n"
            << time_table(nodes, bandwidths) << "\n"
            << wrapped(second_run, output_columns(), 0) << "\n";
}

// --- JSON
// ------------------------------------------------------------------------------------------

void write_times(JsonWriter& json, const char* name, const FetchTimes& times) {
  json.open_object(name);
  json.member_or_null("node", times.node);
  json.member_or_null("store", times.store);
  json.member_or_null("at_least", times.least());
  json.close_object();
}

std::string json_of_nodes(const Nodes& nodes, const Bandwidths& bandwidths) {
  return json_text([&](JsonWriter& json) {
    json.objects("nodes", nodes, [&](const NodeFetches& node) {
      json.numbers("ranks", node.ranks);
      json.member("needed_bytes", node.needed);
      json.member("fetched_bytes", node.fetched);
      json.member("fetched_bytes_with_cache", node.fetched_cached);
      json.member("cache_bytes", node.cache);
    });
    json.open_object("total");
    json.member("needed_bytes", sum(nodes, &NodeFetches::needed));
    json.member("fetched_bytes", sum(nodes, &NodeFetches::fetched));
    json.member("fetched_bytes_with_cache", sum(nodes, &NodeFetches::fetched_cached));
    json.close_object();
    json.open_object("bytes_per_second");
    json.member_or_null("node", bandwidths.node);
    json.member_or_null("store", bandwidths.store);
    json.close_object();
    json.open_object("seconds");
    write_times(json, "without_cache", times(nodes, &NodeFetches::fetched, bandwidths));
    write_times(json, "with_cache", times(nodes, &NodeFetches::fetched_cached, bandwidths));
    json.close_object();
  });
}

}  // namespace

double parse_bandwidth(const std::string& option, const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [unit_begin, error] = std::from_chars(text.data(), end, number);
  std::string_view unit(unit_begin, static_cast<std::size_t>(end - unit_begin));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  const auto found = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& known) {
    return equal_but_for_case(known.name, unit);
  });
  if (error == std::errc() && found != kUnits.end() && number > 0 && std::isfinite(number)) {
    return number * found->bytes;
  }
  throw Error(ErrorKind::kUsage, option + " does not take '" + printable(text) +
                                     "'; write bytes or bits a second, such as 12.5GB/s or "
                                     "100Gbit/s");
}

std::optional<Simulation> simulation_of(const Given& given) {
  const std::optional<std::int64_t> nodes = given.number("simulate");
  if (!nodes) return std::nullopt;
  Simulation simulation{.nodes = *nodes};
  const auto bandwidth = [&](const char* option, std::optional<double>& value) {
    if (given.has(option)) {
      value = parse_bandwidth(std::string("--") + option, given.text(option));
    }
  };
  bandwidth("node-bandwidth", simulation.bandwidths.node);
  bandwidth("store-bandwidth", simulation.bandwidths.store);
  return simulation;
}

std::string simulation_json(const Conversion& conversion, const Simulation& simulation) {
  return json_of_nodes(conversion.node_fetches(simulation.nodes), simulation.bandwidths);
}

int simulate(const Conversion& conversion, const Simulation& simulation, const Given& given) {
  const Nodes nodes = conversion.node_fetches(simulation.nodes);
  const std::string svg = given.text("svg");
  if (!svg.empty()) {
    write_output(svg, given.flag("force"), [&](const TextSink& sink) {
      BoundedWriter writer(sink);
      draw_fetches(nodes, Placement::kDocument, writer);
      writer.flush();
    });
  } else {
    print_text(nodes, simulation.bandwidths);
  }
  return kExitDone;
}

}  // namespace reshardfs
