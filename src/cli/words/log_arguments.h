// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "daemon/process/log.h"

namespace reshardfs {

/// -v, -q, --log-level and --log-file.
struct LogArguments : LogSettings {
  void add_to(CLI::App& command);
};

}  // namespace reshardfs
