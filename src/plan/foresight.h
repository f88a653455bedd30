// SPDX-License-Identifier: Apache-2.0
/// Tells far sources what a reader of a file needs, and what it will need next: which ranges of
/// which sources those are follows from the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/byte_range.h"
#include "plan/content.h"
#include "storage/block_pool.h"

namespace reshardfs {

/// Reads a range of a file as its sources are now; or, for a batch that lists, names them.
using ReadRange =
    std::function<void(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch)>;

/// What a read needs is asked for at once, however many sources that are; and if it goes on where
/// another one ended, so is what the next ones will need.
/// @param file tells readers of one file from those of others.
/// @param size bytes of the file.
void foresee_read(const void* file, std::uint64_t size, const ByteRange& range,
                  const ReadRange& read) noexcept;

/// read_checked() of a range of a file, foreseen where any source is far away.
template <typename Read>
void read_foreseen(const void* file, std::uint64_t size, std::uint64_t offset,
                   std::span<std::byte> out, Read&& read) {
  const auto checked = [&] { read_checked([&](ReadBatch& batch) { read(offset, out, batch); }); };
  if (!BlockPool::is_used()) return checked();
  foresee_read(file, size, ByteRange(offset, out.size()), std::ref(read));
  const ForeseenReads scope;
  checked();
}

}  // namespace reshardfs
