// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vfs/inode_number.h"

namespace reshardfs {

/// What a StepTree is for another process.
struct SavedSteps {
  struct Step {
    BranchNumber branch = 0;
    std::string name{};
    bool shown = true;
    std::string identity{};  ///< of its files; empty: it has not been opened
    bool folded = false;     ///< it was open, and nothing used it any more
  };
  std::vector<Step> steps{};
  std::vector<BranchNumber> used{};  ///< numbers that no other step may have
  std::string newest{};
  std::int64_t changed_ns = 0;
};

std::string encode(const SavedSteps& steps);
/// @throws Error kUnsupported
SavedSteps decode_steps(const std::string& text);

}  // namespace reshardfs
