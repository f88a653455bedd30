// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "format/safetensors_header.h"

namespace reshardfs::safetensors {

/// torch.distributed.checkpoint can save safetensors of which each has parts of tensors: its
/// metadata then says where they begin (DCP_SHARDING_INFO), also of tensors that are whole. A part
/// must not be taken for the whole.
/// @param name of the file: what it writes parts to begins with "shard-", as of the first part
///        nothing else tells that it is one.
/// @throws Error kUnsupported if the file has parts; kBadInput if what is said is not as the writer
///         says it.
void require_whole_tensors(const ParsedHeader& header, const std::string& name);

}  // namespace reshardfs::safetensors
