// SPDX-License-Identifier: Apache-2.0
/// Elements that follow one another along one loop in the source, and along another loop in the
/// destination, as those of a transposed tensor do. They are read in pieces of several elements,
/// and transposed in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/reading/source_nest.h"

namespace reshardfs {

bool is_turned(const Nest& nest) noexcept;

/// Calls `visit` for the runs of rows that a nest which is_turned() is read in, however large.
/// Destinations are not told.
void for_each_turned_run(const SourceNest& source, std::uint64_t element,
                         FunctionRef<void(const StridedRun&)> visit);

/// Reads the elements of a nest that is_turned(). Each thread keeps 256 KiB for it.
/// @param element bytes.
/// @param out where the first element goes.
/// @param read reads a run to the start of its span.
void read_turned(const SourceNest& source, std::uint64_t element, std::byte* out,
                 FunctionRef<void(const StridedRun&, std::span<std::byte>)> read);

}  // namespace reshardfs
