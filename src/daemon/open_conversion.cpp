// SPDX-License-Identifier: Apache-2.0
#include "daemon/open_conversion.h"

#include <string>

#include "fuse/event_log.h"

namespace reshardfs {

Conversion open_conversion(const ConversionOptions& options) {
  Conversion conversion = Conversion::open(options);
  for (const std::string& warning : conversion.warnings())
    log_warning(LogEvent::kConversionWarning, "{}", warning);
  for (const std::string& note : conversion.notes())
    log_info(LogEvent::kConversionNote, "{}", note);
  return conversion;
}

}  // namespace reshardfs
