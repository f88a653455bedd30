// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/conversion.h"

#include "base/json/json_writer.h"
#include "base/process/counters.h"
#include "report/page.h"
#include "view/view.h"

namespace reshardfs {

OptionFacts option_facts(const ConversionOptions& options);
/// The facts about a conversion, which do not change while it is mounted.
ReportSubject report_subject(const ViewContext& context);

// Members of status.json.
void write_members(JsonWriter& json, const OptionFacts& facts);
void write_members(JsonWriter& json, const ConversionFacts& facts);
/// Writes an object with what a mount has done so far.
void write_activity(JsonWriter& json, const CounterValues& values);

/// The source ranks of a traffic list, each once.
std::vector<Rank> ranks_of(const std::vector<SourceTraffic>& traffic);

/// Writes {"rank": r, "needed_ranks": [...], "sources": [{"rank", "file", "bytes"}, ...]}: the plan
/// for one destination rank.
void write_plan(JsonWriter& json, Rank rank, const std::vector<SourceTraffic>& traffic);

}  // namespace reshardfs
