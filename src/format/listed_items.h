// SPDX-License-Identifier: Apache-2.0
/// What a file, or a set's metadata, lists beside the tensors that are shown.
#pragma once

#include <cstdint>
#include <string>

namespace reshardfs {

/// A tensor that cannot be shown.
struct RefusedTensor {
  std::string name;
  std::string reason;
  std::uint64_t bytes = 0;  ///< of its elements, where the file states them
};

}  // namespace reshardfs
