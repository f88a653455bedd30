// SPDX-License-Identifier: Apache-2.0
/// plan --simulate: what the nodes of a cluster would fetch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "reshardfs/conversion.h"

#include "plan/traffic/fetch_times.h"

namespace reshardfs {

struct SimulationArguments {
  std::optional<std::int64_t> nodes;
  Bandwidths bandwidths;

  /// @return --simulate.
  CLI::Option* add_to(CLI::App& command);
};

/// How the result is shown.
struct SimulationOutput {
  bool json = false;
  std::string svg;  ///< a file for a picture; empty: none
  bool force = false;
};

/// @return the exit code.
/// @throws Error kUsage if the ranks cannot be spread over so many nodes.
int simulate(const Conversion& conversion, const SimulationArguments& arguments,
             const SimulationOutput& output);

/// "12.5GB", "12.5GB/s", "100Gbit/s": bytes a second.
/// @throws Error kUsage if it is none of these, or not positive.
double parse_bandwidth(const std::string& option, const std::string& text);

}  // namespace reshardfs
