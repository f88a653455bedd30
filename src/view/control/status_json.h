// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/process/counters.h"
#include "report/page.h"
#include "view/view.h"

namespace reshardfs {

/// What the options say of a mount, whatever it shows, and when that began. The key file is not
/// named.
nlohmann::ordered_json option_facts_json(const ConversionOptions& options);

/// The same, and what a conversion is: nothing of it changes while it is mounted.
nlohmann::ordered_json facts_json(const ViewContext& context);

/// The same, as the report's page takes it.
ReportSubject report_subject(const ViewContext& context);

/// What a mount has done so far.
nlohmann::ordered_json activity_json(const CounterValues& values);

}  // namespace reshardfs
