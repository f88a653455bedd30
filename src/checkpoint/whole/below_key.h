// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "checkpoint/ranks/rank_file.h"

namespace reshardfs {

/// --state-key for files whose names are no paths of keys: keeps the tensors whose names begin with
/// the key and a dot, by what stands behind it. Files of torch.save have been read with the key.
/// @param key empty: does nothing.
/// @throws Error kUsage if no file has such a tensor.
void take_below(const std::string& key, const std::string& option, std::vector<RankFile>& files);

}  // namespace reshardfs
