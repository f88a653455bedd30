// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "strategy/files/raw_strategy.h"

namespace reshardfs {

/// Reads the bytes of a protobuf strategy file.
/// @throws Error kBadInput, with the parameter if there is one, without the file.
RawStrategy read_protobuf_strategy(const std::string& bytes);

}  // namespace reshardfs
