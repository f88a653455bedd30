// SPDX-License-Identifier: Apache-2.0
/// One page about a conversion, for people.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reshardfs/conversion.h"

#include "base/counters.h"
#include "plan/target_table.h"
#include "view/view.h"

namespace reshardfs {

/// What a page is about. Small: the page is made from it when someone asks.
struct ReportSubject {
  std::shared_ptr<const TargetTable> target;
  std::vector<std::int64_t> ranks;   ///< those that are shown
  nlohmann::ordered_json facts;      ///< facts_json()
  std::vector<std::string> options;  ///< option_texts()
};

ReportSubject report_subject(const ViewContext& context);

/// Writes the page: HTML with its pictures, styles and script in it, that loads nothing. A policy
/// in it forbids any other script or style, and any connection.
/// @param activity what a mount has done so far; nothing: it is not of a mount.
void write_report(const ReportSubject& subject, const std::optional<CounterValues>& activity,
                  const TextSink& out);

}  // namespace reshardfs
