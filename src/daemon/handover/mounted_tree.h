// SPDX-License-Identifier: Apache-2.0
/// The trees of a mount as they pass from one process to another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/inputs.h"

namespace reshardfs {

struct MountedTree {
  std::uint64_t version = 0;
  /// What tells its contents from others'; empty: that is not known.
  std::string subject{};
  /// The command line that shows it, without the program's name and with nothing left to be looked
  /// up in a configuration file.
  std::vector<std::string> words{};
  std::string
      source{};  ///< where its path led when it was opened; links in it may have changed since
  std::string step{};  ///< the step that was opened, even if there is a newer one now; empty: none
  /// Of the source's runs and models the one that is shown, see ConversionOptions::src_prefix;
  /// empty: there is nothing to choose, or that is not known.
  std::string series{};
  /// Small files that were read beside the tensors, so that the tree can be shown again after they
  /// have changed.
  std::vector<SavedInput> inputs{};
};

}  // namespace reshardfs
