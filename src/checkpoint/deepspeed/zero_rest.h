// SPDX-License-Identifier: Apache-2.0
/// What a run of DeepSpeed has beside the parameters that it trains: parameters that are frozen,
/// and buffers. Files of model_states have them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/joined_tensors.h"
#include "checkpoint/deepspeed/zero_states.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// An open file of model_states.
struct ZeroModelFile {
  std::string name{};
  ByteSourcePtr file{};
  ZeroModelStates states{};
  std::size_t number = 0;  ///< among the files of the joined tensors
};

/// Adds these tensors.
/// @param models one file, or of stage 3 those of all ranks in their order.
/// @throws Error kBadInput, without the directory, if the files contradict themselves.
void take_untrained(const std::vector<ZeroModelFile>& models, bool is_stage3, JoinedTensors& out);

/// Names, in a warning, what is not trained and cannot be shown.
void note_refused(const ZeroModelFile& model, Discovery& out);

/// Adds the other names of parameters. @throws Error kBadInput, without the directory.
void take_aliases(const ZeroModelFile& model, JoinedTensors& out);

}  // namespace reshardfs
