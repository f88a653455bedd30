// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/rank.h"

namespace reshardfs {

/// As its number. nlohmann's JSON finds it by its name, for lists of ranks too.
template <typename Json>
void to_json(Json& json, Rank rank) {
  json = rank.number();
}

}  // namespace reshardfs
