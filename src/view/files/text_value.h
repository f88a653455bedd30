// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "plan/target/target_table.h"

namespace reshardfs {

/// The value of a text parameter (str) as UTF-8, without NULs at its end. nullopt if it is not a
/// text, has more than 16,384 characters or an invalid one, or differs between the ranks.
/// @throws what the source throws.
std::optional<std::string> text_value(const TargetParameter& parameter);

}  // namespace reshardfs
