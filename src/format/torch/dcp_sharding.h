// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>

#include "reshardfs/shape.h"

#include "format/safetensors/safetensors_header.h"

namespace reshardfs::safetensors {

/// Where the tensors of a file begin in the full ones, by their names.
using PartOffsets = std::unordered_map<std::string, Shape>;

/// torch.distributed.checkpoint can save safetensors of which each has parts of tensors
/// (HuggingFaceStorageWriter; pytorch/pytorch torch/distributed/checkpoint/filesystem.py): the
/// metadata of each then states where its parts begin, as JSON (DCP_SHARDING_INFO). It does so of
/// whole tensors, too.
/// @param name of the file: what the writer saves parts to begins with "shard-", as of the first
///        part nothing else tells that it is one.
/// @return nothing if all tensors of the file are whole.
/// @throws Error kBadInput if what is stated is not as the writer states it, of every tensor.
PartOffsets part_offsets(const ParsedHeader& header, const std::string& name);

}  // namespace reshardfs::safetensors
