// SPDX-License-Identifier: Apache-2.0
#include "daemon/open_conversion.h"

#include <string>

#include <spdlog/spdlog.h>

namespace reshardfs {

Conversion open_conversion(const ConversionOptions& options) {
  Conversion conversion = Conversion::open(options);
  for (const std::string& warning : conversion.warnings()) spdlog::warn("{}", warning);
  for (const std::string& note : conversion.notes()) spdlog::info("{}", note);
  return conversion;
}

}  // namespace reshardfs
