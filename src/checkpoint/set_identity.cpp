// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/set_identity.h"

#include <string>

#include "format/input_format.h"

namespace reshardfs {

std::optional<ObjectKey> set_identity(const std::vector<RankFile>& files) {
  std::string all;
  for (const RankFile& file : files) {
    const std::string identity = file.source->identity();
    if (identity.empty()) return std::nullopt;
    // Each with its length, so that no two lists make one text.
    all.append(input_format_of(file.path).name).append(" ");
    all.append(std::to_string(identity.size())).append("\n").append(identity).append("\n");
  }
  return ObjectKey(all);
}

}  // namespace reshardfs
