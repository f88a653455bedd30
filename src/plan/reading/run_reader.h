// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "plan/target/shown_tensor.h"

namespace reshardfs {

/// Reads a strided run to the start of `out` (at run.destination_stride); `out` holds at least the
/// run's span. Uses at most 256 KiB beside it.
void read_run(const StridedRun& run, std::span<std::byte> out, ReadBatch& batch);

}  // namespace reshardfs
