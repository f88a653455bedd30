// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/engine.h"

namespace reshardfs {

/// Of this kernel: 4 KiB, or up to 64 KiB on aarch64.
RESHARDFS_ENGINE std::size_t page_bytes() noexcept;

/// The bytes of all pages that so many bytes take.
inline std::uint64_t whole_pages(std::uint64_t bytes) noexcept {
  const std::uint64_t page = page_bytes();
  return (bytes + page - 1) / page * page;
}

}  // namespace reshardfs
