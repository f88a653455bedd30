// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/completeness.h"

namespace reshardfs {

/// What --json prints: ASCII alone, as names from files may be no UTF-8 or turn a terminal's text.
void write_json(const nlohmann::ordered_json& json);

/// The "completeness" object of `verify --json` and `inspect --json`.
nlohmann::ordered_json completeness_json(const Completeness& completeness);

}  // namespace reshardfs
