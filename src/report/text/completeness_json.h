// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/completeness.h"

namespace reshardfs {

/// The "completeness" object of `verify --json` and `inspect --json`.
nlohmann::ordered_json completeness_json(const Completeness& completeness);

}  // namespace reshardfs
