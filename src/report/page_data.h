// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/target/target_table.h"
#include "plan/traffic/traffic_survey.h"
#include "report/bounded_writer.h"

namespace reshardfs {

/// Bytes of a parameter's full tensor in the destination's type; of slices that are copied as they
/// are the first one's.
std::uint64_t full_bytes(const TargetTable& target, const TargetParameter& parameter,
                         const std::vector<Rank>& ranks);

/// Writes the table of parameters as a JSON object of columns, as page.js reads it: lists with an
/// item for each parameter, most of them numbers of texts in other lists, so that what thousands
/// have in common is there once.
/// @param examples of each kind a parameter's number.
/// @param slices_of of each kind, see PageSlices.
void write_report_data(const TargetTable& target, const std::vector<Rank>& ranks,
                       const TrafficSurvey& survey, const std::vector<std::size_t>& examples,
                       const std::vector<std::int64_t>& slices_of, BoundedWriter& out);

}  // namespace reshardfs
