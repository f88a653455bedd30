// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "checkpoint/holders.h"

namespace reshardfs {

/// The value of a tensor of one element, if it is of a type that trainers count with: Int32, Int64,
/// and finite values of Float32 and Float64. Reads it.
/// @throws what the source throws.
std::optional<std::variant<std::int64_t, double>> scalar_value(const Holding& holding);

}  // namespace reshardfs
