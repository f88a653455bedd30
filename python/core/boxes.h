// SPDX-License-Identifier: Apache-2.0
/// Many boxes of tensors at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include "core/handle.h"

namespace reshardfs::python {

/// The numbers of the tensors, in the order in which the source's files have their first bytes.
std::vector<std::size_t> in_order_of_sources(const std::vector<TensorHandle>& tensors);

/// Fills each buffer with its tensor's bytes, in C order. All are read by the same threads, in the
/// order of the source's files.
/// @throws Error kUsage if a buffer has another size, before anything is read; otherwise as
///         read_parts().
void read_into_all(const std::vector<std::pair<TensorHandle, pybind11::object>>& parts,
                   std::size_t threads);

/// Begins to bring tensors into the memory of the system, or of the process if they are far away.
/// Returns at once, and never fails: who reads them gets the error.
void prefetch(const std::vector<TensorHandle>& tensors);

/// How many of a tensor's bytes the source has in pieces of less than `least` bytes.
std::uint64_t bytes_in_short_runs(const TensorHandle& tensor, std::uint64_t least);

}  // namespace reshardfs::python
