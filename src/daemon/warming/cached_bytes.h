// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace reshardfs {

/// Bytes of a file's pages that the kernel has in memory (cachestat(2), Linux 6.5); nothing where
/// it does not tell: an older kernel, or a file of another user.
std::optional<std::uint64_t> cached_bytes(int file) noexcept;

/// Bytes of memory that are free or can be made free, as the kernel estimates (MemAvailable), and
/// no more than what the control group allows. @throws Error kIo
std::uint64_t available_memory();

}  // namespace reshardfs
