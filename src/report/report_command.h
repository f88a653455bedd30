// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reshardfs/conversion_options.h"

namespace reshardfs {

/// The words of the command that makes a report about the same conversion: `reshardfs report`, the
/// source, every option that differs from its default, and the page's file.
/// @param step the saved step that was taken; empty: as the options have it.
std::vector<std::string> report_command(const ConversionOptions& options, const std::string& step);

}  // namespace reshardfs
