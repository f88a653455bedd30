// SPDX-License-Identifier: Apache-2.0
#include "report/page_maps.h"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/rank_list.h"
#include "report/map_sources.h"
#include "report/page_json.h"
#include "report/slice_map.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostBytes = std::size_t{512} << 10;
/// Of one parameter: what is larger is no picture for a dialog.
constexpr std::size_t kMostBytesOfOne = std::size_t{64} << 10;
/// More examples are not looked at.
constexpr std::size_t kMostExamples = 2'000;

std::int64_t number_of(const std::optional<std::size_t>& dimension) {
  return dimension ? static_cast<std::int64_t>(*dimension) : -1;
}

std::string stretches_json(const std::vector<Stretch>& list) {
  std::string json;
  for (const Stretch& stretch : list) {
    json += fmt::format("{}[{},{},{}]", json.empty() ? "" : ",", stretch.end,
                        stretch.destination_part, stretch.source_part);
  }
  return "[" + json + "]";
}

/// page.js draws from this: "rows" and "columns" as [end, target part, source part], "to" as
/// [row part, column part, ranks], "from" as [row part, column part, number in "sources" or -1],
/// "sources" as [label, short label, colour, whether a text on it is white].
std::string map_json(const SliceMap& map, bool is_raw) {
  const MapSources sources(map);
  std::string json = fmt::format(
      R"({{"dimensions":[{},{}],"rows":{},"columns":{},"hidden":[{}],"cut":[{},{}],)",
      number_of(map.row_dimension), number_of(map.column_dimension), stretches_json(map.rows),
      stretches_json(map.columns), fmt::join(map.hidden, ","),
      json_text(cut_text(map.source_parts)), json_text(cut_text(map.destination_parts)));
  json += fmt::format(R"("made":{:d},"raw":{:d},"shortened":{:d},"to":[)", map.made_by_map, is_raw,
                      map.shortened);
  const char* comma = "";
  for (const auto& [parts, ranks] : map.ranks) {
    json += fmt::format("{}[{},{},{}]", comma, parts.first, parts.second,
                        json_text(format_rank_list(ranks)));
    comma = ",";
  }
  json += R"(],"from":[)";
  comma = "";
  for (const auto& [parts, holding] : map.holdings) {
    const bool known = holding && sources.has(holding);
    json += fmt::format("{}[{},{},{}]", comma, parts.first, parts.second,
                        known ? static_cast<std::int64_t>(sources.number(holding)) : -1);
    comma = ",";
  }
  json += R"(],"sources":[)";
  for (std::size_t i = 0; i < sources.count(); ++i) {
    const SourceColour colour = sources.colour(i);
    json += fmt::format(R"({}[{},"{}","{}",{:d}])", i == 0 ? "" : ",", json_text(sources.label(i)),
                        sources.short_label(i), colour.fill, colour.takes_white);
  }
  return json + "]}";
}

/// Empty: there is nothing to draw, or too much.
std::string maps_json(const TargetTable& target, const TargetParameter& parameter,
                      const std::vector<Rank>& ranks) {
  std::string json;
  for (const SliceMap& map : slice_maps(target, parameter, ranks)) {
    json += (json.empty() ? "" : ",") + map_json(map, parameter.treatment == Treatment::kRaw);
    if (json.size() > kMostBytesOfOne) return {};
  }
  return json.empty() ? json : "[" + json + "]";
}

}  // namespace

void write_slice_maps(const TargetTable& target, const std::vector<Rank>& ranks,
                      const std::vector<std::size_t>& examples, BoundedWriter& out) {
  std::unordered_map<std::string, std::int64_t> numbers;
  std::vector<std::int64_t> map_of;
  std::size_t bytes = 0;
  out.write("\"maps\":[");
  for (const std::size_t example : examples) {
    std::int64_t number = -1;
    if (map_of.size() < kMostExamples && bytes < kMostBytes) {
      std::string json = maps_json(target, target.parameters()[example], ranks);
      if (!json.empty()) {
        const auto [found, is_new] =
            numbers.try_emplace(std::move(json), static_cast<std::int64_t>(numbers.size()));
        number = found->second;
        if (is_new) {
          if (number > 0) out.write(",\n");
          out.write(found->first);
          bytes += found->first.size();
        }
      }
    }
    map_of.push_back(number);
  }
  out.write("],\n");
  write_list(out, "map_of", map_of, [&](std::int64_t number) { out.print("{}", number); });
}

}  // namespace reshardfs
