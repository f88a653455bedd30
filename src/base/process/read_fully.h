// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace reshardfs {

/// Reads from a file at an offset, in bytes, until `out` is full or the file ends.
/// @return how many bytes it has read; nothing, with errno, if it cannot be read.
std::optional<std::size_t> read_fully(int file, std::uint64_t offset,
                                      std::span<std::byte> out) noexcept;

}  // namespace reshardfs
