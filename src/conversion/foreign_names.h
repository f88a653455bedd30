// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// Why no map knows the names in a checkpoint, and what to do: they are those of an adapter
/// (lora_adapter.h), or wrappers have changed them (wrapper_names.h). Empty: they are neither.
std::string foreign_names(const CheckpointSet& set);

}  // namespace reshardfs
