// SPDX-License-Identifier: Apache-2.0
/// What the process has done with sources beyond reading them, on servers, and with the cache: for
/// metrics and status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

class MetricsText;

struct StorageFigure {
  std::string name;  ///< as in status.json; for metrics with a prefix, and "_total" if it counts
  std::uint64_t value = 0;
  bool counts = false;  ///< it only grows
  std::string help;     ///< what it is
};

/// Only what the mount makes use of: maps, servers and slow file systems, the cache.
std::vector<StorageFigure> storage_figures();

void write_storage_metrics(MetricsText& text);

}  // namespace reshardfs
