// SPDX-License-Identifier: Apache-2.0
/// Reads runs of bytes, and nests that are turned: their elements are contiguous along one loop in
/// the source and along another loop in the destination, as in a transposed tensor. Of these, it
/// reads pieces of several elements and transposes them in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/reading/source_nest.h"
#include "plan/target/shown_tensor.h"

namespace reshardfs {

/// Reads a strided run to the start of `out` (at run.destination_stride); `out` holds at least the
/// run's span. Uses at most 256 KiB beside it.
void read_run(const StridedRun& run, std::span<std::byte> out, ReadBatch& batch);

bool is_turned(const Nest& nest) noexcept;

/// Calls `visit` for the runs of rows in which a nest with is_turned() is read, of any size. The
/// runs' destinations are not set.
void for_each_turned_run(const SourceNest& source, std::uint64_t element,
                         FunctionRef<void(const StridedRun&)> visit);

/// Reads the elements of a nest with is_turned(). Each thread keeps a buffer of 256 KiB for this.
/// @param element bytes.
/// @param out the address of the first element.
/// @param read reads a run into a span, from its start on.
void read_turned(const SourceNest& source, std::uint64_t element, std::byte* out,
                 FunctionRef<void(const StridedRun&, std::span<std::byte>)> read);

}  // namespace reshardfs
