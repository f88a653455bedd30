// SPDX-License-Identifier: Apache-2.0
/// What a file, or a set's metadata, lists beside the tensors that are shown.
#pragma once

#include <string>

namespace reshardfs {

/// A tensor that cannot be shown.
struct RefusedTensor {
  std::string name;
  std::string reason;
};

}  // namespace reshardfs
