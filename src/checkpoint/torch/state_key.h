// SPDX-License-Identifier: Apache-2.0
/// --state-key: the part of what was saved that is the model.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/ranks/rank_file.h"

namespace reshardfs {

/// @return whether the name is below the key; then it is without it. True for the empty key.
inline bool take_state(const std::string& key, std::string& name) {
  if (key.empty()) return true;
  if (name.size() <= key.size() + 1 || !name.starts_with(key) || name[key.size()] != '.') {
    return false;
  }
  name.erase(0, key.size() + 1);
  return true;
}

/// Keeps what has a `name` below the key.
template <typename Named>
void keep_state(const std::string& key, std::vector<Named>& all) {
  std::erase_if(all, [&](Named& one) { return !take_state(key, one.name); });
}

/// --state-key for files whose names are no paths of keys: keeps the tensors whose names begin with
/// the key and a dot, by what stands behind it. Files of torch.save have been read with the key.
/// @param key empty: does nothing.
/// @throws Error kUsage if no file has such a tensor.
void take_below(const std::string& key, const std::string& option, std::vector<RankFile>& files);

}  // namespace reshardfs
