// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace reshardfs {

// NOLINTBEGIN(modernize-avoid-c-arrays): of a length that is known when it runs
/// Memory for bytes that will all be written: filling it with zeros before would take as long.
using UnfilledBytes = std::unique_ptr<std::byte[]>;

/// @throws std::bad_alloc
inline UnfilledBytes unfilled_bytes(std::size_t count) {
  return std::make_unique_for_overwrite<std::byte[]>(count);
}
// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace reshardfs
