// SPDX-License-Identifier: Apache-2.0
#include "report/text/series_list.h"

#include <iostream>
#include <string>

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

void write_series(JsonWriter& json, const std::vector<SeriesInfo>& all) {
  json.objects("series", all, [&](const SeriesInfo& series) {
    json.member("prefix", series.name);
    json.texts("steps", series.steps);
    json.numbers("ranks", series.ranks);
    json.member("modified", modified(series));
    json.member("breakpoint", series.is_breakpoint);
  });
}

}  // namespace

void print_series(const std::vector<SeriesInfo>& all, bool as_json) {
  if (as_json) {
    write_json([&](JsonWriter& json) { write_series(json, all); });
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
