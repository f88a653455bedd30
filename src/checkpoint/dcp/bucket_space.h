// SPDX-License-Identifier: Apache-2.0
/// States that Megatron-Core's distributed optimizer saves as they lie in its memory, which is its
/// default (dp_reshardable): one flat vector for each bucket of each group of ranks, without names.
///
/// A buffer has the parameters of a rank's part of the model from the last to the first, each at a
/// multiple of 64 elements of its bucket; what is between them is undefined, and each bucket ends
/// with a parameter. The order is taken where it is proven: the state `param`, rounded, is the
/// weight, at both ends of every parameter.
///
/// Source: NVIDIA/Megatron-LM megatron/core/distributed/param_and_grad_buffer.py and
/// megatron/core/optimizer/distrib_optimizer.py, August 2026.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/second_copies.h"
#include "format/torch/dcp_table.h"

namespace reshardfs {

/// Reads elements of a box's item from `first` on, as many as fit.
/// @return false: they cannot be read as those of an item of this type with so many elements.
using ReadItem =
    std::function<bool(std::size_t box, const DcpTensor& tensor, std::int64_t item_elements,
                       std::int64_t first, std::span<std::byte> out)>;

/// Whether there are such states.
bool has_buckets(const DcpTable& table);

/// Replaces them by states with the names and shapes of their weights, optimizer.state.exp_avg.NAME
/// and so on, as the forms have them that know the model.
/// @param compare is set to what compares all of `param` with the weights.
/// @return why that is not possible; then nothing has changed.
std::optional<std::string> name_buckets(DcpTable& table, ReadItem read, CompareCopies& compare);

}  // namespace reshardfs
