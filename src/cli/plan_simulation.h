// SPDX-License-Identifier: Apache-2.0
/// plan --simulate: what the nodes of a cluster would fetch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reshardfs/conversion.h"

#include "cli/words/given.h"
#include "plan/traffic/node_fetches.h"

namespace reshardfs {

struct Simulation {
  std::int64_t nodes = 0;
  Bandwidths bandwidths{};
};

/// What --simulate asks for, if it is given. @throws Error kUsage.
std::optional<Simulation> simulation_of(const Given& given);

/// What --json prints.
/// @throws Error kUsage if the ranks cannot be spread over so many nodes.
std::string simulation_json(const Conversion& conversion, const Simulation& simulation);

/// @param given says how the result is shown: --svg and --force.
/// @return the exit code.
/// @throws Error as simulation_json().
int simulate(const Conversion& conversion, const Simulation& simulation, const Given& given);

/// "12.5GB", "12.5GB/s", "100Gbit/s": bytes a second.
/// @throws Error kUsage for any other text, or if it is not positive.
double parse_bandwidth(const std::string& option, const std::string& text);

}  // namespace reshardfs
