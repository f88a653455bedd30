// SPDX-License-Identifier: Apache-2.0
#include "report/text/series_list.h"

#include <iostream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "base/text/text.h"
#include "checkpoint/series/step.h"
#include "report/text/json_output.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

std::string modified(const SeriesInfo& series) {
  return series.mtime_ns == 0 ? "" : utc_time(series.mtime_ns);
}

}  // namespace

void print_series(const std::vector<SeriesInfo>& all, bool as_json) {
  if (as_json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const SeriesInfo& series : all) {
      list.push_back({{"prefix", series.name},
                      {"steps", series.steps},
                      {"ranks", series.ranks},
                      {"modified", modified(series)},
                      {"breakpoint", series.is_breakpoint}});
    }
    write_json({{"series", std::move(list)}});
    return;
  }
  TextTable table({"PREFIX", "STEPS", "MODIFIED", "RANKS"}, {});
  for (const SeriesInfo& series : all) {
    table.add_row({printable(series.name), printable(join_steps(series.steps)), modified(series),
                   format_rank_list(series.ranks)});
  }
  std::cout << table.str() << std::flush;
}

}  // namespace reshardfs
