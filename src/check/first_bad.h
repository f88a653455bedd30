// SPDX-License-Identifier: Apache-2.0
/// Where the first element of a tensor is that is NaN or infinite.
#pragma once

#include <cstdint>
#include <optional>

#include "reshardfs/checkpoint.h"

#include "checkpoint/holders.h"
#include "plan/target/shown_elements.h"

namespace reshardfs {

struct BadElement {
  std::uint64_t index = 0;     ///< flat, row-major
  std::optional<Rank> rank{};  ///< of the file that has it; nothing: a model map states it
};

/// Reads from the beginning until it finds one, 256 KiB at a time.
/// @returns nothing if all elements are finite.
/// @throws what the sources throw.
std::optional<BadElement> first_bad_element(const ShownElements& view);

/// The same of what one file holds, as an array.
std::optional<BadElement> first_bad_element(const Holding& holding);

}  // namespace reshardfs
